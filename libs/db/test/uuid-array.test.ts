import { randomUUIDv7 } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { openTestDatabase, type TestDatabase } from '../src/testing/index.ts';
import { uuidArray } from '../src/uuid-array.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const ZERO = '00000000-0000-0000-0000-000000000000';
const FULL = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
const MIXED = '01234567-89ab-7cde-8f01-23456789abcd';

test.each<[string, readonly (string | null)[]]>([
  ['none', []],
  ['one', [MIXED]],
  ['null alone', [null]],
  ['nulls between', [null, ZERO, null, FULL, MIXED, null]],
  ['a thousand', Array.from({ length: 1_000 }, () => randomUUIDv7())],
])('uuids arrive unchanged: %s', async (_name, ids) => {
  const { rows } = await sql<{
    ids: readonly (string | null)[];
  }>`select ${uuidArray(ids)}::uuid[] as ids`.execute(database.db);
  expect(rows).toEqual([{ ids }]);
});

test('capital digits give the same uuid', () => {
  expect(uuidArray([MIXED.toUpperCase()])).toEqual(uuidArray([MIXED]));
});

test.each([
  '',
  'x',
  MIXED.slice(1),
  `${MIXED}0`,
  MIXED.replace('a', 'g'),
  MIXED.replace('a', 'ä'),
  MIXED.replace('-', 'a'),
  MIXED.replaceAll('-', ''),
  `{${MIXED}}`,
])('an invalid uuid is refused: %s', (text) => {
  expect(() => uuidArray([MIXED, text])).toThrow(TypeError);
});
