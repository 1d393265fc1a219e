import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  findWritesOfRuns,
  newId,
  readEndedRuns,
  readMemoryChanges,
  readMessagesOfRuns,
  readResultsInOrder,
  readResultsOfRuns,
  readRetryChain,
  readRunUsages,
  type Database,
  type ResultFilter,
  type ResultRow,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { createTestAgents } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';

/** Runs of each batch; the batches stand beside each other in every table. */
const RUNS = 20_000;
const PAGE = 250;
const BATCHES: readonly string[] = [newId(), newId(), newId()];
const [BATCH = '', RETRY = ''] = BATCHES;
const NONE = '00000000-0000-0000-0000-000000000000';
const ALL: ResultFilter = {
  states: ['completed', 'failed'],
  stop_reasons: null,
  error_group: null,
  messages: false,
};

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, [
    ...([
      'run',
      'message',
      'step',
      'batch',
      'run_failure',
      'ended_runs',
      'block_revision',
      'agent_block',
      'batch_retry_run',
    ] as const),
  ]);
  const agents = await createTestAgents(db, PAGE);
  const agentIds = sql`${agents.map((agent) => agent.id)}::uuid[]`;
  await sql`
    insert into batch (id, project_id, state, total, accepted, completed_at, retry_of)
    select id, ${DEFAULT_PROJECT_ID}::uuid, 'completed', ${RUNS}, ${RUNS}, app_now(), case when id = ${RETRY} then ${BATCH}::uuid end
      from unnest(${[...BATCHES]}::uuid[]) id`.execute(db);
  // Ids in no order of the ordinals.
  await sql`
    insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state, stop_reason, error,
                     max_steps, first_seq, last_seq, started_at, ended_at)
    select (left(u::text, 14) || '7' || substr(u::text, 16, 4) || '8' || substr(u::text, 21, 10) || '000000')::uuid, ${DEFAULT_PROJECT_ID}::uuid,
           b.id, (${agentIds})[n % ${PAGE} + 1], (left(u::text, 28) || '00000000')::uuid, ${NONE}::uuid, n, 'c' || n,
           case when n % 10 = 0 then 'failed' else 'completed' end, 'end_turn', case when n % 10 = 0 then '{"message": "No."}'::json end,
           10, 1, 2, app_now(), app_now()
      from unnest(${[...BATCHES]}::uuid[]) b(id), generate_series(0, ${RUNS - 1}) n, lateral (select md5(b.id::text || n)::uuid as u) v`.execute(
    db,
  );
  await sql`
    insert into batch_retry_run (batch_id, ordinal, project_id, run_id, retry_run_id)
    select n.batch_id, n.ordinal, n.project_id, o.id, n.id
      from run n join run o on o.batch_id = ${BATCH}::uuid and o.ordinal = n.ordinal where n.batch_id = ${RETRY}::uuid`.execute(
    db,
  );
  await sql`
    insert into message (project_id, conversation_id, seq, run_id, step_number, role, content)
    select r.project_id, r.conversation_id, m.seq, r.id, nullif(m.seq, 1) / 2, m.role, '[{"type": "text", "text": "x"}]'
      from run r cross join (values (1, 'user'), (2, 'assistant')) as m(seq, role)`.execute(db);
  await sql`
    insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq,
                      block_ids, block_revisions, max_tokens, stop_reason, model, sealed_at, applied_at, ended_at)
    select project_id, id, 1, 1, batch_id, ordinal, 'done', 1, 1, '{}', '{}', 4096, 'end_turn', 'm', app_now(), app_now(), app_now()
      from run`.execute(db);
  await sql`
    insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, fingerprint)
    select batch_id, id, project_id, ended_at, state, stop_reason, 'group' || ordinal % 3 from run where state = 'failed'`.execute(
    db,
  );
  await sql`
    insert into ended_runs (batch_id, slot, version, project_id, run_ids, ended_at)
    select batch_id, ordinal % 8, ordinal + 1, project_id, array[id], ended_at from run`.execute(db);
  // Each agent's block was written by a run of every batch.
  await sql`
    insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id, step_number,
                                tool_use_id, resolution)
    select a.block_id, row_number() over (partition by a.block_id order by r.batch_id) + 1, r.project_id, 'text', 100, false, 1, r.batch_id,
           r.id, 1, 'toolu_1', 'clean'
      from run r join agent_block a on a.agent_id = r.agent_id where r.ordinal < ${PAGE}`.execute(db);
});
afterAll(() => database.close());

/** Returns the rows that `work` reads of each table, at most, by scan. */
async function readsOf(work: (trx: Tx) => Promise<unknown>): Promise<(table: string) => number> {
  const plans = await explain(database.url, work);
  return (table) => Math.max(0, ...rowsReadOf(plans, table));
}

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'the results of one of three batches, with rows %s,',
  (when) => {
    let page: readonly ResultRow[] = [];
    beforeAll(async () => {
      if (when !== 'never counted') await sql`analyze`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
      page = (await readResultsInOrder(db, BATCH, { from: 0, below: PAGE }, ALL)).rows;
      expect(page.map((row) => row.place)).toEqual(Array.from({ length: PAGE }, (_, place) => place));
    });

    test.each([
      ['all', ALL, PAGE],
      ['of a state', { ...ALL, states: ['failed'] as const }, PAGE / 10],
      ['of a group', { ...ALL, error_group: 'group0' }, 9],
      ['with the sizes of their messages', { ...ALL, messages: true }, PAGE],
    ])(
      '%s, in order, are read by their place, and the last message of each',
      async (_what, filter, count) => {
        let rows: readonly ResultRow[] = [];
        const reads = await readsOf(async (trx) => {
          const range = { from: RUNS / 2, below: RUNS / 2 + PAGE };
          rows = (await readResultsInOrder(trx, BATCH, range, filter)).rows;
        });
        expect(rows.length).toBeGreaterThanOrEqual(count - 1);
        expect(rows.length).toBeLessThanOrEqual(count);
        expect(reads('run')).toBe(PAGE);
        expect(reads('message')).toBeLessThanOrEqual(2 * PAGE);
        expect(reads('run_failure')).toBeLessThanOrEqual(PAGE);
      },
    );

    // By the time of a retry, the runs of the first batch are counted.
    test.skipIf(when.endsWith('be seen'))(
      'with retries are looked up by the runs that they retry',
      async () => {
        let rows: readonly ResultRow[] = [];
        const reads = await readsOf(async (trx) => {
          const chain = await readRetryChain(trx, DEFAULT_PROJECT_ID, BATCH);
          expect(chain).toEqual([{ id: RETRY, has_ended: true }]);
          rows = (await readResultsInOrder(trx, BATCH, { from: 500, below: 500 + PAGE }, ALL, [RETRY])).rows;
        });
        expect(new Set(rows.map((row) => row.batch_id))).toEqual(new Set([RETRY]));
        expect(rows.map((row) => row.custom_id)).toEqual(rows.map((row) => `c${row.place}`));
        expect(reads('run')).toBe(PAGE);
        expect(reads('batch_retry_run')).toBe(PAGE);
        expect(reads('batch')).toBeLessThanOrEqual(BATCHES.length);
      },
    );

    test('in the order of their ends are read by id, a page of commits at a time', async () => {
      const reads = await readsOf(async (trx) => {
        const commits = await readEndedRuns(trx, BATCH, [9, 10, 11, 12, 13, 14, 15, 16]);
        const ids = commits.flatMap((commit) => commit.run_ids);
        const { rows } = await readResultsOfRuns(trx, ids, ALL);
        expect(rows.map((row) => row.id)).toEqual(ids);
      });
      expect(reads('ended_runs')).toBeLessThanOrEqual(8 * 200);
      expect(reads('run')).toBe(200);
      expect(reads('message')).toBeLessThanOrEqual(2 * 200);
    });

    test('get their usage, messages and memory writes by key', async () => {
      const ids = page.map((row) => row.id);
      const reads = await readsOf(async (trx) => {
        expect((await readRunUsages(trx, ids)).size).toBe(PAGE);
        expect(await readMessagesOfRuns(trx, page)).toHaveLength(2 * PAGE);
        const writes = await findWritesOfRuns(trx, [BATCH], ids);
        expect(writes.map((write) => write.run_id).toSorted()).toEqual(ids.toSorted());
        expect(await readMemoryChanges(trx, writes)).toHaveLength(PAGE);
      });
      expect(reads('step')).toBeLessThanOrEqual(2 * PAGE);
      expect(reads('message')).toBe(2 * PAGE);
      expect(reads('run')).toBe(PAGE);
      // The statistics of these tables are true: their scan may be the cheaper way.
      expect(reads('block_revision')).toBeLessThanOrEqual(4 * PAGE);
    });
  },
);
