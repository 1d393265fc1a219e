import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { unnestRows } from '../../src/commits/unnest-rows.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

interface Row {
  readonly id: string;
  readonly word: string | null;
  readonly text: string | null;
  readonly number: number | null;
  readonly big: number | null;
  readonly truth: boolean | null;
}

const A = '00000000-0000-4000-8000-00000000000a';
const B = '00000000-0000-4000-8000-00000000000b';
const row = (id: string, parts: Partial<Row> = {}): Row => ({
  ...{ id, word: 'ready', text: 'plain', number: 1, big: 2 ** 40, truth: true },
  ...parts,
});

async function asRead(rows: readonly Row[]): Promise<readonly unknown[]> {
  const read = await sql`
    select id, word, text, number, big, truth from ${unnestRows(rows, {
      id: ['uuid', ({ id }) => id],
      word: ['word', ({ word }) => word],
      text: ['text', ({ text }) => text],
      number: ['int', ({ number }) => number],
      big: ['bigint', ({ big }) => big],
      truth: ['boolean', ({ truth }) => truth],
    })}`.execute(database.db);
  return read.rows;
}

const NOTHING = { word: null, text: null, number: null, big: null, truth: null };
const AWKWARD = 'NULL, "quoted", \\ back, {braces}, \'one\', \n line, ü';

test.each<[string, readonly Row[]]>([
  ['no rows', []],
  ['one row', [row(A)]],
  ['one row of nothing', [row(A, NOTHING)]],
  ['rows that say the same', [row(A), row(B)]],
  ['rows that say nothing', [row(A, NOTHING), row(B, NOTHING)]],
  ['rows that differ', [row(A), row(B, { word: 'acting', text: 'other', number: -1, big: 0, truth: false })]],
  ['values beside nothing', [row(A), row(B, NOTHING)]],
  ['nothing beside values', [row(A, NOTHING), row(B)]],
  ['a first column that says the same', [row(A), row(A)]],
  ['text of every kind, the same', [row(A, { text: AWKWARD }), row(B, { text: AWKWARD })]],
  ['text of every kind', [row(A, { text: AWKWARD }), row(B, { text: 'NULL' }), row(B, { text: '' })]],
])('rows arrive unchanged: %s', async (_name, rows) => {
  expect(await asRead(rows)).toEqual(rows);
});
