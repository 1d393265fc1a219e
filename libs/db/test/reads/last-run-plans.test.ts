import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { readLastRuns, type Database, type LastRun } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { accept, acceptBareFleet, clear } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run']);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'the last runs of agents, with rows %s,',
  (when) => {
    const PAGE = 100;
    const LATEST = 100;
    let agentIds: readonly string[];
    /** An agent with many ended runs, and an agent with an ended run below as many open runs. */
    let busy = '';
    let stuck = '';
    beforeAll(async () => {
      await clear(db);
      const fleet = await acceptBareFleet(db, 1_000);
      agentIds = fleet.agent_ids.slice(0, PAGE);
      busy = agentIds[7]!;
      stuck = agentIds[8]!;
      const isolated = (ids: readonly string[]) => ids.map((id) => ({ ...aRun(id), isolated: true }));
      for (const ids of [fleet.agent_ids, Array<string>(5_000).fill(busy)]) await accept(db, isolated(ids));
      await sql`
        update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now(), first_seq = 1, last_seq = 1,
                       started_at = app_now()`.execute(db);
      await accept(db, isolated(Array<string>(5_000).fill(stuck)));
      const open = agentIds.slice(10, 20);
      for (const ids of [open, open]) await accept(db, isolated(ids));
      if (when !== 'never counted') await sql`analyze run`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    const read = async (
      ids: readonly string[],
    ): Promise<{ readonly last: ReadonlyMap<string, LastRun>; readonly runs: number }> => {
      let last: ReadonlyMap<string, LastRun> = new Map();
      const plans = await explain(database.url, async (trx) => {
        last = await readLastRuns(trx, ids);
      });
      const runs = rowsReadOf(plans, 'run');
      return { last, runs: Math.max(0, ...runs) };
    };

    test('are found with one read of an ended run per agent, below its open runs', async () => {
      const ids = agentIds.filter((id) => id !== stuck);
      const { last, runs } = await read(ids);
      expect([...last.keys()].toSorted()).toEqual([...ids].toSorted());
      // Postgres may round the mean of rows per loop.
      expect(runs).toBeLessThanOrEqual(2 * PAGE);
      expect((await read([busy])).runs).toBe(1);
    });

    test('are searched only among the latest runs', async () => {
      expect(await read([stuck])).toEqual({ last: new Map(), runs: LATEST });
    });
  },
);
