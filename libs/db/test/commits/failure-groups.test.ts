import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

async function groupsOf(messages: readonly (string | null)[]): Promise<number> {
  const { rows } = await sql<{ groups: number }>`
    select count(distinct failure_group('provider_error', m))::int as groups from unnest(${[...messages]}::text[]) as u(m)
  `.execute(db);
  return rows[0]?.groups ?? 0;
}

test.each([
  [
    'run ids',
    ['run-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90 broke', 'run-0199d2a4-8f3e-7c1b-9a55-aaaaaaaaaaaa broke'],
  ],
  ['ids of the provider', ['msg_01XFDUDYJgAACzvnptvVoYEL ended', 'msg_01Aq9w938a90dw8q ended']],
  ['request ids', ['Overloaded (req_011CQxYz9aBcDeFgHiJk)', 'Overloaded (req_011CQ7aaBBccDDeeFFgg)']],
  ['hexadecimal ids', ['trace deadbeefdeadbeef', 'trace 4bf92f3577b34da6']],
  [
    'numbers',
    ['messages.3.content.0: too long: 200,104 > 200,000', 'messages.14.content.2: too long: 1 > 200000'],
  ],
  ['lists of numbers', ['lines 1, 2, 3 and 4', 'lines 7 and 8'].map((text) => text.replace(' and', ','))],
  ['times', ['at 2026-11-27T05:38:13Z', 'at 2026-12-01T23:00:01.250Z']],
  ['ends beyond 400 characters', ['x y '.repeat(100) + 'one', 'x y '.repeat(100) + 'two']],
  ['no message', [null, null]],
])('messages that differ in %s are one group', async (_what, messages) => {
  expect(await groupsOf(messages)).toBe(1);
});

test.each([
  ['names in quotes', ['There is no tool "look"', 'There is no tool "see"']],
  ['models', ['claude-opus-4-1 is gone', 'claude-sonnet-4-1 is gone']],
  ['words', ['The colour is wrong', 'The shape is wrong']],
  ['exceptions', ['InternalServerErrorException', 'ServiceUnavailableException']],
  ['having a message', ['No.', null]],
])('messages that differ in %s are two groups', async (_what, messages) => {
  expect(await groupsOf(messages)).toBe(2);
});

test('the stop reason tells groups apart', async () => {
  const { rows } = await sql<{ same: boolean }>`
    select failure_group('poison', 'No.') = failure_group('refusal', 'No.') as same`.execute(db);
  expect(rows).toEqual([{ same: false }]);
});
