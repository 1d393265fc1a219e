import type { RunState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, listRuns, readRunUsages, type Database, type RunRow } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, nodesOf, rowsReadOf } from '../plans.ts';
import {
  accept,
  acceptBareFleet,
  callsTools,
  clear,
  ingest,
  sealAndEnd,
} from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run', 'batch', 'batch_tally']);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'a list of runs, with rows %s, after nights without open runs,',
  (when) => {
    const LAST_NIGHT = 100;
    let waiting = '';
    beforeAll(async () => {
      await clear(db);
      const past = await acceptBareFleet(db, 1_000);
      for (let night = 1; night < 3; night++)
        await accept(
          db,
          past.agent_ids.map((id) => ({ ...aRun(id), isolated: true })),
        );
      await sql`
        update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now(), first_seq = 1, last_seq = 1,
                       started_at = app_now()`.execute(db);
      await sql`insert into batch_tally (batch_id, slot, project_id, completed)
                select id, 0, project_id, 1000 from batch`.execute(db);
      await sql`update batch set state = 'completed', completed_at = app_now()`.execute(db);
      await sql`
        insert into batch (id, project_id, state, total, completed_at)
        select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, app_now() from generate_series(1, 1_000)`.execute(
        db,
      );
      const agentIds = past.agent_ids.slice(0, LAST_NIGHT);
      const tonight = await accept(
        db,
        agentIds.map((id) => ({ ...aRun(id), isolated: true })),
      );
      await accept(
        db,
        past.agent_ids.map((id) => ({ ...aRun(id), isolated: true })),
      );
      waiting = tonight.run_ids[LAST_NIGHT / 2]!;
      await sql`update run set state = 'requires_action' where id = ${waiting}::uuid`.execute(db);
      await sql`insert into batch_tally (batch_id, slot, project_id, requires_action)
                values (${tonight.id}::uuid, 0, ${DEFAULT_PROJECT_ID}::uuid, 1)`.execute(db);
      if (when !== 'never counted') await sql`analyze run, batch, batch_tally`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    /** Lists runs in these states, and counts the rows read. */
    const readOf = async (
      states: readonly RunState[],
      limit: number,
      order: 'asc' | 'desc',
    ): Promise<{ readonly listed: readonly RunRow[]; readonly read: number }> => {
      let listed: readonly RunRow[] = [];
      const filter = {
        batch_id: null,
        custom_id: null,
        agent_ids: null,
        stop_reasons: null,
        tool_calls_failed: null,
        states,
      };
      const plans = await explain(database.url, async (trx) => {
        const page = { limit, order, after: null, before: null };
        listed = (await listRuns(trx, DEFAULT_PROJECT_ID, page, filter)).rows;
      });
      const read = rowsReadOf(plans, 'run');
      return { listed, read: Math.max(0, ...read) };
    };

    test.each(['asc', 'desc'] as const)(
      'of runs that await their caller reads only their batch: %s',
      async (order) => {
        const { listed, read } = await readOf(['requires_action'], 100, order);
        expect(listed.map((run) => run.id)).toEqual([waiting]);
        expect(read).toBeLessThanOrEqual(LAST_NIGHT);
      },
    );

    test.each(['asc', 'desc'] as const)('of open runs reads only open runs: %s', async (order) => {
      const { read } = await readOf(['queued', 'ready', 'in_flight', 'acting'], 100, order);
      expect(read).toBeLessThanOrEqual(2 * 100);
      expect((await readOf(['acting'], 100, order)).read).toBeLessThanOrEqual(1_000 + LAST_NIGHT);
    });

    test('without states reads nothing', async () => {
      expect(await readOf([], 100, 'desc')).toEqual({ listed: [], read: 0 });
    });
  },
);

test('the usage of a page of runs is one statement, which reads only their steps and calls', async () => {
  await clear(db);
  await leaveUncounted(db, ['step', 'tool_call']);
  const { run_ids } = await acceptBareFleet(db, 300);
  await ingest(db, await sealAndEnd(db), callsTools(2));
  const page = run_ids.slice(0, 100);
  let usages: ReadonlyMap<string, unknown> = new Map();
  const plans = await explain(database.url, async (trx) => {
    usages = await readRunUsages(trx, page);
  });
  expect([...usages.keys()].toSorted()).toEqual(page.toSorted());
  expect(usages.get(page[0]!)).toMatchObject({ steps: 1, tool_calls: 2, failed_tool_calls: 0 });
  expect(plans).toHaveLength(1);
  expect(rowsReadOf(plans, 'step')).toEqual([100]);
  expect(rowsReadOf(plans, 'tool_call')).toEqual([200]);
});

test('a list of runs looks up conversation holders only for queued runs of its page', async () => {
  await clear(db);
  const first = await acceptBareFleet(db, 200);
  await accept(
    db,
    first.agent_ids.map((id) => aRun(id)),
  );
  const filter = {
    batch_id: null,
    custom_id: null,
    agent_ids: null,
    stop_reasons: null,
    tool_calls_failed: null,
    states: null,
  };
  for (const states of [null, ['queued'] as const, ['queued', 'ready'] as const]) {
    const listed: RunRow[] = [];
    const plans = await explain(database.url, async (trx) => {
      const page = { limit: 50, order: 'desc', after: null, before: null } as const;
      listed.push(...(await listRuns(trx, DEFAULT_PROJECT_ID, page, { ...filter, states })).rows);
    });
    const found = new Map(first.run_ids.map((id, place) => [id, first.agent_ids[place]]));
    expect(listed.map((run) => found.get(run.waits_for_run_id ?? ''))).toEqual(
      listed.map((run) => run.agent_id),
    );
    const lookUps = plans
      .flatMap(({ plan }) => [...nodesOf(plan)])
      .filter((node) => node['Relation Name'] === 'conversation');
    expect(lookUps.map((node) => [node['Node Type'], node['Actual Loops']])).toEqual([['Index Scan', 50]]);
  }
});
