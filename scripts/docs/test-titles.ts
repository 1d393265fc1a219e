import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** A test as its file names it. */
export interface TestTitle {
  /** From the root of the repository. */
  readonly file: string;
  /** With the titles of the groups that it stands in. */
  readonly title: string;
  /** The title that it is one of, as in `test.each`; null for a title of its own. */
  readonly of: string | null;
}

const TEST_FILES = ['{apps,libs}/*/test/**/*.test.ts', 'test/**/*.test.ts'];

/** The titles of all tests of the repository, by file. Tests that are skipped, always or on some machines, are left out. */
export function testTitles(root: string): readonly TestTitle[] {
  return globSync(TEST_FILES, { cwd: root, exclude: ['**/node_modules/**', 'test/fixtures/**'] })
    .map((file) => file.replaceAll('\\', '/'))
    .sort()
    .flatMap((file) =>
      titlesIn(readFileSync(join(root, file), 'utf8'), file).map((title) => ({ file, ...title })),
    );
}

/**
 * The titles in the source of a test file, in its order. Of a title that stands for many, as in `test.each`, there is one,
 * and where it holds `%s`, one more for each text of its table.
 */
export function titlesIn(source: string, fileName: string): readonly Omit<TestTitle, 'file'>[] {
  const titles: Omit<TestTitle, 'file'>[] = [];
  const visit = (node: ts.Node, groups: readonly string[]): void => {
    const called = ts.isCallExpression(node) ? groupOrTest(node) : null;
    if (called === null) return ts.forEachChild(node, (child) => visit(child, groups));
    if (called.kind === 'other') return;
    const title = [...groups, called.title].join(' › ');
    if (called.kind === 'test') {
      titles.push({ title, of: null });
      if (!title.includes('%s')) return;
      titles.push(...called.texts.map((text) => ({ title: title.replace('%s', () => text), of: title })));
      return;
    }
    for (const argument of called.body) visit(argument, [...groups, called.title]);
  };
  visit(ts.createSourceFile(fileName, source, ts.ScriptTarget.Latest, true), []);
  return titles;
}

type Called =
  | {
      readonly kind: 'test' | 'describe';
      readonly title: string;
      readonly texts: readonly string[];
      readonly body: readonly ts.Node[];
    }
  /** `test.skip` and its like. */
  | { readonly kind: 'other' };

function groupOrTest(call: ts.CallExpression): Called | null {
  const table = ts.isCallExpression(call.expression) ? call.expression : null;
  const [kind, modifier] = (table ?? call).expression.getText().split('.');
  if (kind !== 'test' && kind !== 'describe') return null;
  const known = table === null ? modifier === undefined : modifier === 'each' || modifier === 'for';
  if (!known) {
    // `test.each(table)` itself is looked at as part of the call of what it returns.
    return { kind: 'other' };
  }
  const [title, ...body] = call.arguments;
  if (title === undefined || !ts.isStringLiteralLike(title)) return null;
  return { kind, title: title.text, texts: table === null ? [] : textsOf(table), body };
}

/** The texts at the head of the rows of a table that is written out. */
function textsOf(table: ts.CallExpression): readonly string[] {
  const [rows] = table.arguments;
  if (rows === undefined || !ts.isArrayLiteralExpression(rows)) return [];
  return rows.elements.flatMap((row) => {
    const head = ts.isArrayLiteralExpression(row) ? row.elements[0] : row;
    return head !== undefined && ts.isStringLiteralLike(head) ? [head.text] : [];
  });
}
