import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeStatements, type TypedStatement } from './describe.ts';
import type { RecordedColumn, RecordedStatement, StatementRecord } from './record.ts';

/*
 * Compares the columns that the server sent for each statement of libs/db, recorded by the other tests (record.ts), with
 * the row types in the source (describe.ts). Runs after all other tests.
 */

const ROOT = join(import.meta.dirname, '../../../..');
const RECORDING = '{libs/db/test,apps/api/test,apps/worker/test,test/stack}/**/*.test.ts';

/** The kind of the driver's JavaScript value for each Postgres type; JSON may be any kind. */
const KINDS: Readonly<Record<number, string>> = {
  ...kindOf('boolean', 16),
  ...kindOf('number', 20, 21, 23, 26, 701),
  ...kindOf('string', 18, 19, 25, 1043, 1700, 2205, 2950),
  ...kindOf('Date', 1184),
  ...kindOf('object', 17),
  ...kindOf('array', 1000, 1005, 1007, 1009, 1016, 2951),
  ...kindOf('json', 114, 3802),
};

const records = readRecords();

test.skipIf(records.length === 0)(
  'each statement has the columns of its row type, and only nullable columns have nulls',
  () => {
    const typed = describeStatements();
    const seen = new Set<TypedStatement>();
    const complaints = new Set<string>();
    for (const statement of records.flatMap((record) => record.statements)) {
      const match = typedStatementOf(typed, statement);
      if (match === undefined) continue;
      seen.add(match.claim);
      for (const complaint of compare(match.claim, statement.columns, match.extra)) complaints.add(complaint);
    }
    expect([...complaints].sort()).toEqual([]);
    const recording = globSync(RECORDING, { cwd: ROOT }).filter((file) => !file.includes('row-types'));
    const have = new Set(records.map((record) => record.test_file));
    // A partial test run executes only some statements.
    if (!recording.every((file) => have.has(join(ROOT, file)))) return;
    const unseen = typed.filter((each) => each.columns !== undefined && !seen.has(each));
    expect(unseen.map(nameOf), 'statements that no test runs').toEqual([]);
  },
);

function readRecords(): readonly StatementRecord[] {
  const directory = process.env['NIGHTSHIFT_STATEMENTS'] ?? '';
  if (!existsSync(directory)) return [];
  return readdirSync(directory).map(
    (file) => JSON.parse(readFileSync(join(directory, file), 'utf8')) as StatementRecord,
  );
}

/** Finds the row type of a statement, and adds the columns of readCutPage itself. */
function typedStatementOf(
  typed: readonly TypedStatement[],
  { frames }: RecordedStatement,
): { readonly claim: TypedStatement; readonly extra: readonly string[] } | undefined {
  let extra: readonly string[] = [];
  for (const frame of frames) {
    const [file, line] = frame.split(':');
    const claim = typed.find(
      (each) => each.file === file && each.first_line <= Number(line) && Number(line) <= each.last_line,
    );
    if (claim === undefined) return undefined;
    if (claim.columns !== undefined) return { claim, extra };
    extra = ['page_rows', 'bytes_before'];
  }
  return undefined;
}

function compare(
  claim: TypedStatement,
  columns: Readonly<Record<string, RecordedColumn>>,
  extra: readonly string[],
): readonly string[] {
  const claimed = claim.columns ?? {};
  const missing = Object.keys(claimed).filter(
    (name) => !(name in columns) && claimed[name]?.optional !== true,
  );
  const unnamed = claim.is_open
    ? []
    : Object.keys(columns).filter((name) => !(name in claimed) && !extra.includes(name));
  const wrong = Object.entries(claimed).flatMap(([name, { kinds, nullable }]) => {
    const column = columns[name];
    if (column === undefined) return [];
    const kind = KINDS[column.type_id] ?? `type ${column.type_id}`;
    const fits = kind === 'json' || kinds.length === 0 || kinds.includes(kind);
    return [
      ...(fits ? [] : [`${name} is ${kind}, not ${kinds.join(' or ')}`]),
      ...(column.has_null && !nullable ? [`${name} is null`] : []),
    ];
  });
  return [
    ...missing.map((name) => `${name} is not in the result`),
    ...unnamed.map((name) => `${name} is not in the type`),
    ...wrong,
  ].map((complaint) => `${nameOf(claim)}: ${complaint}`);
}

function nameOf({ file, first_line }: TypedStatement): string {
  return `${file}:${first_line}`;
}

function kindOf(kind: string, ...typeIds: readonly number[]): Readonly<Record<number, string>> {
  return Object.fromEntries(typeIds.map((id) => [id, kind]));
}
