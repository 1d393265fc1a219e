import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { choosePilot } from '../../src/commits/batch/pilot.ts';
import type { Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { acceptBareFleet, clear } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run', 'message']);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'the pilot of a batch of 5,000 runs, with rows %s,',
  (when) => {
    let batchId = '';
    beforeAll(async () => {
      await clear(db);
      ({ id: batchId } = await acceptBareFleet(db, 5_000));
      if (when !== 'never counted') await sql`analyze run, message`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
      await sql`
        update batch set pilot = '{"runs": 4, "then": "pause", "failure_rate": 0.2}', pilot_state = 'running'
         where id = ${batchId}`.execute(db);
    });

    test('is drawn over the whole batch by the sizes of a sample, which alone is read', async () => {
      let ordinals: readonly number[] = [];
      const plans = await explain(database.url, async (trx) => {
        await choosePilot(trx, batchId);
        const batch = trx.selectFrom('batch').select('pilot_ordinals').where('id', '=', batchId);
        ordinals = (await batch.executeTakeFirstOrThrow()).pilot_ordinals ?? [];
      });
      expect(ordinals.map((ordinal) => Math.floor(ordinal / 1_250))).toEqual([0, 1, 2, 3]);
      for (const rows of rowsReadOf(plans, 'message')) expect(rows).toBeLessThanOrEqual(80);
    });
  },
);
