import { decideNoBudget, type StepOutcome } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  auditInvariants,
  claimDueBatches,
  commitOverdueRuns,
  commitRunsCancelled,
  commitRunsEnded,
  DEFAULT_PROJECT_ID,
  inTransaction,
  lockRuns,
  readBatch,
  requestBatchCancel,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { acceptBareFleet, ALICE, clear, DONE, ingest, leaseOf, sealAndEnd } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));
afterEach(async () => {
  const broken = (await auditInvariants(db)).map(({ id }) => id);
  expect(broken).not.toContain('I11');
});

const BROKEN: StepOutcome = {
  kind: 'errored',
  error_class: 'retryable',
  error_type: 'api_error',
  message: 'It broke.',
};

let batchId = '';

/** Accepts a batch of two runs whose step has failed; returns its id. */
async function failingBatch(): Promise<string> {
  ({ id: batchId } = await acceptBareFleet(db, 2));
  await ingest(db, await sealAndEnd(db), BROKEN);
  expect(await failingRuns()).toBe(2);
  return batchId;
}

/** Counts runs with a failure, and compares the count of their batch. */
async function failingRuns(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from run where num_nonnulls(failing_since, last_error, next_attempt_at) > 0
  `.execute(db);
  const count = rows[0]?.count ?? 0;
  expect(await readBatch(db, DEFAULT_PROJECT_ID, batchId)).toMatchObject({ retrying: count });
  return count;
}

describe('a run that ends while its step is tried again keeps no failure', () => {
  test('when it is cancelled', async () => {
    const id = await failingBatch();
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, id));
    const [claimed] = await claimDueBatches(db, ['cancelling'], 1, ALICE);
    const lease = leaseOf('batch', claimed ?? expect.fail('no batch'));
    const page = { from_ordinal: 0, limit: 10 };
    expect(await inTransaction(db, (trx) => commitRunsCancelled(trx, lease, page))).toMatchObject({
      cancelled: 2,
    });
    expect(await failingRuns()).toBe(0);
  });

  test('when its deadline passes', async () => {
    await failingBatch();
    await sql`update run set deadline_at = statement_timestamp(), overdue_from = statement_timestamp()`.execute(
      db,
    );
    expect(await inTransaction(db, (trx) => commitOverdueRuns(trx, 10))).toMatchObject({ ended: 2 });
    expect(await failingRuns()).toBe(0);
  });

  test('when it is ended before its next step is sent', async () => {
    await failingBatch();
    const { rows } = await sql<{ id: string }>`select id from run order by id`.execute(db);
    await inTransaction(db, async (trx) => {
      const runs = await lockRuns(
        trx,
        rows.map(({ id }) => id),
      );
      await sql`delete from run_chunk`.execute(trx);
      await commitRunsEnded(
        trx,
        [...runs.values()].map((run) => ({ run, move: decideNoBudget(run, 'The budget is spent.') })),
      );
    });
    expect(await failingRuns()).toBe(0);
  });
});

test('a run forgets its failure with the answer of the step, and not with the next failure', async () => {
  await failingBatch();
  await sql`update run_chunk set next_due_at = app_now()`.execute(db);
  await ingest(db, await sealAndEnd(db), BROKEN);
  expect(await failingRuns()).toBe(2);
  await sql`update run_chunk set next_due_at = app_now()`.execute(db);
  await ingest(db, await sealAndEnd(db), DONE);
  expect(await failingRuns()).toBe(0);
});
