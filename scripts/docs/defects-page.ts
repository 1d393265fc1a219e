import { join } from 'node:path';
import { DEFECTS, type Defect } from './defects.ts';
import { code, generatedFrom, page, table } from './markdown.ts';
import { testTitles, type TestTitle } from './test-titles.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The names of rows that a title carries. */
export function rowsNamedBy(title: string): readonly string[] {
  return [...new Set(title.match(/\bB\d+[a-d]?\b/g))];
}

/** The tests that carry the name of each row. Where all of a table do, they count as one. */
export function proofs(titles: readonly TestTitle[] = testTitles(ROOT)): ReadonlyMap<string, TestTitle[]> {
  const found = new Map<string, TestTitle[]>();
  for (const title of titles) {
    const ofAll = rowsNamedBy(title.of ?? '');
    for (const row of rowsNamedBy(title.title).filter((name) => !ofAll.includes(name)))
      found.set(row, [...(found.get(row) ?? []), title]);
  }
  return found;
}

/** The page of known defects and the tests that show that they are not here. */
export function defectsPage(): string {
  const shown = proofs();
  const rows = (defects: readonly Defect[]): readonly (readonly string[])[] =>
    defects.map(({ row, defect, absent }) => [
      row,
      defect,
      absent === undefined
        ? (shown.get(row) ?? []).map(({ file, title }) => `${code(file)}: ${plain(title)}`).join('<br>')
        : `No test: ${absent}`,
    ]);
  return page([
    '# Known defects',
    generatedFrom(['`scripts/docs/defects.ts`', 'the titles of the tests']),
    'What systems that run agents have been seen to do wrong, and the tests that show that Nightshift does not. A test ' +
      'carries the names of the rows that it proves in its title. Where a row has no test, what it is about is not here.',
    ...DEFECTS.flatMap(({ title, defects }) => [
      `## ${title}`,
      table(['Row', 'The defect', 'Shown by'], rows(defects)),
    ]),
  ]);
}

/** A title without the names of rows. What it leaves open is shown as such; brackets and stars would be markup. */
function plain(title: string): string {
  return title
    .replace(/(?:B\d+[a-d]?,? ?)+: | \((?:B\d+[a-d]?(?:, )?)+\)/g, '')
    .replace(/%[a-z]|\$\w+/g, '…')
    .replace(/[<>*_]/g, (sign) => `\\${sign}`);
}
