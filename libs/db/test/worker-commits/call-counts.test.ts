import { sql } from 'kysely';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import {
  auditInvariants,
  claimToolsChunk,
  commitCallResults,
  inTransaction,
  migrateToLatest,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { acceptFleet, act, ALICE, callsTools, ingest, sealAndEnd } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeEach(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterEach(() => database.close());

const counts = async (): Promise<readonly number[]> => {
  const { rows } = await sql<{ counts: number[] }>`
    select array[sum(tool_calls), sum(ended_tool_calls), sum(failed_tool_calls), sum(unknown_tool_calls)]::int[] as counts
      from batch_tally`.execute(db);
  return rows[0]!.counts;
};

/** Two runs with four calls each, of which one has a success, a failure and a doubt on its rows. */
async function halfDone(): Promise<void> {
  const fleet = await acceptFleet(db, 2);
  await ingest(db, await sealAndEnd(db), callsTools(4));
  const results = (['succeeded', 'failed', 'unknown'] as const).map((state, call_index) => ({
    ...{ run_id: fleet.run_ids[0]!, step_number: 1, call_index, state },
    ...{ held_result: 'seen', duration_ms: 1 },
  }));
  await inTransaction(db, (trx) => commitCallResults(trx, results));
  await inTransaction(db, (trx) => commitCallResults(trx, results));
}

test('each call is counted once, in the commit that stores its outcome', async () => {
  await halfDone();
  expect(await counts()).toEqual([8, 3, 2, 1]);
  expect(await auditInvariants(db)).toEqual([]);
  await act(db, (await claimToolsChunk(db, ALICE))!, 'done');
  const [all, ended] = await counts();
  expect([all, ended]).toEqual([8, 8]);
  expect(await auditInvariants(db)).toEqual([]);
});

test('a database of the release before gets the counts of its calls', async () => {
  await halfDone();
  // As the release before left it: calls of steps that are open counted neither as failed nor as unknown.
  await sql`update batch_tally set failed_tool_calls = 0, unknown_tool_calls = 0`.execute(db);
  await sql`alter table batch_tally drop column ended_tool_calls`.execute(db);
  await sql`drop table tool_grant, tool_bucket`.execute(db);
  await sql`alter table tool drop column concurrency, drop column rate_per_minute`.execute(db);
  await sql`delete from kysely_migration where name = '0020-tool-limits'`.execute(db);
  expect(await migrateToLatest(db)).toEqual(['0020-tool-limits']);
  expect(await counts()).toEqual([8, 3, 2, 1]);
  expect(await auditInvariants(db)).toEqual([]);
});
