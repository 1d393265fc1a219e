import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, readBatch, type BatchRow, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { acceptBareFleet, clear } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run']);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'a batch of 5,000 runs, with rows %s,',
  (when) => {
    let batchId = '';
    beforeAll(async () => {
      await clear(db);
      ({ id: batchId } = await acceptBareFleet(db, 5_000));
      if (when !== 'never counted') await sql`analyze run`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
      await sql`
        update run set failing_since = app_now(), next_attempt_at = app_now(),
                       last_error = '{"type": "overloaded_error", "message": "Overloaded"}'
         where batch_id = ${batchId}`.execute(db);
      await sql`
        insert into batch_tally (batch_id, slot, project_id, retrying) values (${batchId}, 0, ${DEFAULT_PROJECT_ID}, 5000)
      `.execute(db);
    });

    test('that are all tried again is read with their number and a sample of them', async () => {
      let batch: BatchRow | undefined;
      const plans = await explain(database.url, async (trx) => {
        batch = await readBatch(trx, DEFAULT_PROJECT_ID, batchId);
      });
      expect(batch).toMatchObject({
        retrying: 5_000,
        retry_error: { type: 'overloaded_error', message: 'Overloaded' },
        retry_errors_vary: false,
      });
      for (const rows of rowsReadOf(plans, 'run')) expect(rows).toBeLessThanOrEqual(100);
    });
  },
);
