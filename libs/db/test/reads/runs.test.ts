import {
  ENDED_RUN_STATES,
  isRunEnded,
  RUN_STATES,
  type RunState,
  type StopReason,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { DEFAULT_PROJECT_ID, inTransaction, listRuns, type Page, type RunFilter } from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch, aRun, createTestAgents } from '../factories.ts';

interface StoredRun {
  readonly id: string;
  readonly batch_id: string;
  readonly agent_id: string;
  readonly state: RunState;
  readonly stop_reason: StopReason | null;
}

const everything: RunFilter = {
  batch_id: null,
  custom_id: null,
  agent_ids: null,
  states: null,
  stop_reasons: null,
  tool_calls_failed: null,
};

let database: TestDatabase;
/** All runs, oldest first. */
let stored: readonly StoredRun[] = [];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  const agents = await createTestAgents(database.db, 3);
  for (let n = 0; n < 24; n++) {
    // Every third batch holds open runs only, every third ended ones only.
    const states = [RUN_STATES.filter((state) => !isRunEnded(state)), ENDED_RUN_STATES, RUN_STATES][n % 3]!;
    await acceptInStates(
      agents.map((agent) => agent.id),
      Array.from({ length: 1 + ((n * 5) % 7) }, (_, ordinal) => states[(n + ordinal * 5) % states.length]!),
      n,
    );
  }
  const { rows } = await sql<StoredRun>`
    select id, batch_id, agent_id, state, stop_reason from run order by created_at, id`.execute(database.db);
  stored = rows;
});
afterAll(() => database.close());

/** A batch whose runs stand so, with counts to it; two batches have the same age. */
async function acceptInStates(
  agentIds: readonly string[],
  states: readonly RunState[],
  n: number,
): Promise<void> {
  const { db } = database;
  const batch = aBatch(
    states.map((_, ordinal) => ({ ...aRun(agentIds[(n + ordinal) % agentIds.length]!), isolated: true })),
  );
  const { run_ids } = await inTransaction(db, (trx) => acceptBatch(trx, DEFAULT_PROJECT_ID, batch));
  const created_at = sql`timestamptz '2026-01-01' + ${Math.floor(n / 2)} * interval '1 microsecond'`;
  await sql`
    update run r set state = d.state, created_at = ${created_at},
           first_seq = case when d.state <> 'queued' then 1 end, last_seq = case when d.state <> 'queued' then 1 end,
           started_at = case when d.state <> 'queued' then r.started_at end,
           ended_at = case when d.ended then app_now() end, stop_reason = case when d.ended then 'end_turn' end,
           error = case when d.state = 'failed' then '{}'::json end
      from unnest(${run_ids}::uuid[], ${states}::text[], ${states.map(isRunEnded)}::boolean[]) as d(id, state, ended)
     where r.id = d.id`.execute(db);
  const countOf = (counted: RunState): number => states.filter((state) => state === counted).length;
  await sql`
    insert into batch_tally (batch_id, slot, project_id, completed, failed, cancelled, expired, requires_action)
    values (${batch.id}::uuid, 0, ${DEFAULT_PROJECT_ID}::uuid, ${countOf('completed')}, ${countOf('failed')},
            ${countOf('cancelled')}, ${countOf('expired')}, ${countOf('requires_action') + 1}),
           (${batch.id}::uuid, 1, ${DEFAULT_PROJECT_ID}::uuid, 0, 0, 0, 0, -1)`.execute(db);
  const state = states.every(isRunEnded)
    ? 'completed'
    : ['running', 'paused', 'cancelling'][n % 3 === 0 ? (n / 3) % 3 : 0];
  await sql`
    update batch set created_at = ${created_at}, state = ${state}, state_reason = 'a test',
           completed_at = case when ${state} = 'completed' then app_now() end,
           cancel_requested_at = case when ${state} = 'cancelling' then app_now() end,
           next_due_at = case when ${n % 4 < 2} then app_now() end
     where id = ${batch.id}::uuid`.execute(db);
}

/** What the page must hold, taken from all runs. */
function expectedOf(page: Page, filter: RunFilter): readonly string[] {
  const inOrder = page.order === 'asc' ? stored : stored.toReversed();
  const placeOf = (cursor: string | null): number => inOrder.findIndex((run) => run.id === cursor);
  const found = inOrder
    .slice(placeOf(page.after) + 1, page.before === null ? undefined : placeOf(page.before))
    .filter(
      (run) =>
        (filter.batch_id === null || run.batch_id === filter.batch_id) &&
        (filter.agent_ids?.includes(run.agent_id) ?? true) &&
        (filter.states?.includes(run.state) ?? true) &&
        (filter.stop_reasons === null ||
          (run.stop_reason !== null && filter.stop_reasons.includes(run.stop_reason))),
    )
    .map((run) => run.id);
  return page.before === null ? found.slice(0, page.limit) : found.slice(-page.limit);
}

test('every page of every filter holds the runs found by a full scan, in the requested order', async () => {
  const orNull = <Value>(values: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> =>
    fc.oneof(fc.constant(null), values);
  const ids = stored.map((run) => run.id);
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        limit: fc.integer({ min: 1, max: 30 }),
        order: fc.constantFrom('asc' as const, 'desc' as const),
        after: orNull(fc.constantFrom(...ids)),
        before: orNull(fc.constantFrom(...ids)),
      }),
      fc.record({
        batch_id: fc.oneof(
          { weight: 3, arbitrary: fc.constant(null) },
          fc.constantFrom(...stored.map((run) => run.batch_id)),
        ),
        custom_id: fc.constant(null),
        agent_ids: fc.oneof(
          { weight: 3, arbitrary: fc.constant(null) },
          fc.subarray([...new Set(stored.map((run) => run.agent_id))]),
        ),
        states: fc.oneof(
          fc.constant(null),
          fc.constant(['requires_action' as const]),
          fc.subarray(RUN_STATES.filter((state) => !isRunEnded(state))),
          fc.subarray(RUN_STATES),
        ),
        tool_calls_failed: fc.constant(null),
        stop_reasons: fc.constantFrom(null, null, null, [], ['end_turn' as const], ['refusal' as const]),
      }),
      async (page, filter) => {
        // The cursors of a list of one batch, or else of some agents, are of their runs.
        const ofOwner = (cursor: string | null): string | null => {
          const run = stored.find(({ id }) => id === cursor);
          const isOwn =
            filter.batch_id === null
              ? (filter.agent_ids?.includes(run?.agent_id ?? '') ?? true)
              : run?.batch_id === filter.batch_id;
          return isOwn ? cursor : null;
        };
        const asked = { ...page, after: ofOwner(page.after), before: ofOwner(page.before) };
        const { rows } = await listRuns(database.db, DEFAULT_PROJECT_ID, asked, filter);
        expect(rows.map((row) => row.id)).toEqual(expectedOf(asked, filter));
      },
    ),
    { numRuns: 600 },
  );
});

test.each([
  ['that await their caller', ['requires_action']],
  ['that have not ended', RUN_STATES.filter((state) => !isRunEnded(state))],
] as const)('paging shows every run once: %s', async (_which, states) => {
  const filter = { ...everything, states };
  for (const order of ['asc', 'desc'] as const) {
    const seen: string[] = [];
    for (let after: string | null = null; ; after = seen.at(-1) ?? null) {
      const page: Page = { limit: 4, order, after, before: null };
      const { rows } = await listRuns(database.db, DEFAULT_PROJECT_ID, page, filter);
      seen.push(...rows.map((row) => row.id));
      if (rows.length < page.limit) break;
    }
    const all: Page = { limit: 1_000, order, after: null, before: null };
    expect(seen.length).toBeGreaterThan(4);
    expect(seen).toEqual(expectedOf(all, filter));
  }
});
