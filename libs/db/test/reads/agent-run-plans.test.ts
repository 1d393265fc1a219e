import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  commitBlocksReleased,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  listRuns,
  type Database,
  type RunRow,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { accept, acceptBareFleet, clear } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run', 'batch', 'batch_tally']);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'of an agent with 5,000 ended runs and an open run, with rows %s,',
  (when) => {
    let agentId = '';
    let open = '';
    let otherId = '';
    let otherOpen = '';
    beforeAll(async () => {
      await clear(db);
      const { agent_ids } = await acceptBareFleet(db, 1_000);
      [agentId, otherId] = [agent_ids[7]!, agent_ids[8]!];
      const isolated = (ids: readonly string[]) => ids.map((id) => ({ ...aRun(id), isolated: true }));
      await accept(db, isolated(Array<string>(5_000).fill(agentId)));
      await sql`
        update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now(), first_seq = 1, last_seq = 1,
                       started_at = app_now()`.execute(db);
      await sql`insert into batch_tally (batch_id, slot, project_id, completed)
                select id, 0, project_id, total from batch`.execute(db);
      await sql`update batch set state = 'completed', completed_at = app_now()`.execute(db);
      // Among as many runs of other agents as an accept brings.
      const tonight = await accept(db, isolated(agent_ids));
      [open, otherOpen] = [tonight.run_ids[7]!, tonight.run_ids[8]!];
      if (when !== 'never counted') await sql`analyze run, batch, batch_tally`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    test('its deletion, and the sweep that detaches its blocks, read only the open run', async () => {
      const plans = await explain(database.url, async (trx) => {
        await deleteAgent(trx, DEFAULT_PROJECT_ID, agentId);
        await commitBlocksReleased(trx, 100);
        const { keeps_blocks } = await trx
          .selectFrom('agent')
          .select('keeps_blocks')
          .where('id', '=', agentId)
          .executeTakeFirstOrThrow();
        expect(keeps_blocks).toBe(true);
      });
      expect(rowsReadOf(plans, 'run')).toEqual([1, 1]);
    });

    /** Lists open runs of agents, and counts the rows read. */
    const readOf = async (
      agent_ids: readonly string[],
      order: 'asc' | 'desc',
    ): Promise<{ readonly listed: readonly string[]; readonly read: readonly number[] }> => {
      let listed: readonly RunRow[] = [];
      const plans = await explain(database.url, async (trx) => {
        const page = { limit: 100, order, after: null, before: null };
        const states = ['queued', 'ready', 'in_flight', 'acting', 'requires_action'] as const;
        const filter = {
          batch_id: null,
          custom_id: null,
          stop_reasons: null,
          tool_calls_failed: null,
          states,
          agent_ids,
        };
        listed = (await listRuns(trx, DEFAULT_PROJECT_ID, page, filter)).rows;
      });
      return { listed: listed.map((run) => run.id), read: rowsReadOf(plans, 'run') };
    };

    // A planner from PostgreSQL 18 on may read equally old runs of other agents, when nearly all runs are of this agent.
    test.each(['asc', 'desc'] as const)(
      'a list of its open runs reads no runs of other ages: %s',
      async (order) => {
        const { listed, read } = await readOf([agentId], order);
        expect(listed).toEqual([open]);
        expect(Math.max(...read)).toBeLessThanOrEqual(1_000);
      },
    );

    test('a list of open runs of two agents reads only open runs', async () => {
      const { listed, read } = await readOf([agentId, otherId], 'asc');
      expect(listed).toEqual([open, otherOpen]);
      expect(Math.max(...read)).toBeLessThanOrEqual(1_000);
    });
  },
);
