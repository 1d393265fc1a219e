import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  acceptByRule,
  acceptHeldChanges,
  DEFAULT_PROJECT_ID,
  EVERY_CHANGE,
  listHeldChanges,
  newId,
  rejectHeldChanges,
  summarizeHeldChanges,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { countNearlyNone, explain, rowsReadOf } from '../plans.ts';
import { accept, acceptBareFleet } from '../worker-commits/night-shift.ts';

const AGENTS = 5_000;
/** Number of batches, with AGENTS runs each. */
const BATCHES = 3;

let database: TestDatabase;
let db: Database;
let batchId = '';
let agentIds: readonly string[] = [];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  for (const table of ['run', 'held_change', 'block', 'block_revision'] as const) {
    // No autovacuum refreshes the statistics during the test.
    await sql`alter table ${sql.table(table)} set (autovacuum_enabled = false)`.execute(db);
  }
  const fleet = await acceptBareFleet(db, AGENTS);
  agentIds = fleet.agent_ids.toSorted();
  const runs = fleet.agent_ids.map((id) => ({ ...aRun(id), isolated: true }));
  batchId = (await accept(db, runs)).id;
  await accept(db, runs);
  await sql`
    with r as (select *, gen_random_uuid() as block_id, gen_random_uuid() as draft_id from run where batch_id = ${batchId}),
    b as (insert into block (id, project_id, label, head_revision) select block_id, project_id, 'notes', 1 from r),
    d as (insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
          select draft_id, project_id, 'notes', 1, app_now(), batch_id from r),
    n as (insert into block_revision (block_id, revision, project_id, value, char_limit, read_only)
          select unnest(array[block_id, draft_id]), 1, project_id, 'text', 100, false from r)
    insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id,
                             step_number, tool_use_id)
    select batch_id, agent_id, block_id, project_id, draft_id, 'revised', 1, 'notes', id, 1, 'toolu_1' from r`.execute(
    db,
  );
});
afterAll(() => database.close());

const NO_FILTER = { ...EVERY_CHANGE, agent_id: null, block_id: null };
const STATISTICS = ['never counted', 'counted', 'counted while nearly none could be seen'];

async function count(when: string): Promise<void> {
  if (when !== 'never counted') await sql`analyze run, held_change, block, block_revision`.execute(db);
  if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
}

test.each(STATISTICS)('a list of held changes reads only runs of its batch, with rows %s', async (when) => {
  await count(when);
  const page = {
    limit: 50,
    sort: 'created_at',
    order: 'asc',
    after: null,
    before: null,
    with_present: false,
  } as const;
  const plans = await explain(database.url, async (trx) => {
    const { rows } = await listHeldChanges(trx, batchId, page, NO_FILTER);
    expect(rows).toHaveLength(page.limit);
  });
  expect(Math.max(0, ...rowsReadOf(plans, 'run'))).toBeLessThanOrEqual(AGENTS);
  expect(plans).toHaveLength(1);
});

test.each(STATISTICS)(
  'risk, filters and counts read each change of the batch once, with rows %s',
  async (when) => {
    await count(when);
    const page = {
      limit: 50,
      sort: 'risk',
      order: 'asc',
      after: null,
      before: null,
      with_present: true,
    } as const;
    const filter = {
      ...NO_FILTER,
      state: 'held',
      label: 'notes',
      shrunk: false,
      stale: false,
      text: 'TEX',
    } as const;
    const reads: readonly ((trx: Tx) => Promise<unknown>)[] = [
      (trx) => listHeldChanges(trx, batchId, page, filter),
      (trx) => summarizeHeldChanges(trx, batchId, filter, { labels: 100, groups: 10 }),
    ];
    for (const read of reads) {
      const plans = await explain(database.url, read);
      expect(plans).toHaveLength(1);
      expect(Math.max(0, ...rowsReadOf(plans, 'held_change'))).toBeLessThanOrEqual(AGENTS);
      for (const table of ['run', 'block', 'block_revision', 'agent'])
        expect(Math.max(0, ...rowsReadOf(plans, table)), table).toBeLessThanOrEqual(AGENTS);
    }
  },
);

test.each(STATISTICS)('unknown ids of a filter are found in one query, with rows %s', async (when) => {
  await count(when);
  await sql`update batch set state = 'completed', completed_at = app_now() where id = ${batchId}`.execute(db);
  const unknown = () => Array.from({ length: AGENTS }, () => newId());
  for (const filter of [
    { agent_ids: unknown(), block_ids: null },
    { agent_ids: null, block_ids: unknown() },
  ]) {
    const plans = await explain(database.url, async (trx) => {
      const reject = rejectHeldChanges(trx, DEFAULT_PROJECT_ID, batchId, filter);
      await expect(reject).rejects.toMatchObject({ code: 'not_found' });
    });
    const looks = plans.filter(({ statement }) => statement.includes('except'));
    expect(looks).toHaveLength(1);
    const read = [...rowsReadOf(looks, 'run'), ...rowsReadOf(looks, 'held_change')];
    expect(read).toHaveLength(1);
    // With so few batches a scan of the whole table may be shorter, but never a look-up per id.
    expect(read[0]).toBeLessThanOrEqual(BATCHES * AGENTS);
  }
});

test.each(STATISTICS)(
  'a portion of a hold rule reads the changes of its agents alone, with rows %s',
  async (when) => {
    await count(when);
    const limit = 20;
    const plans = await explain(database.url, async (trx) => {
      const portion = { after: agentIds[AGENTS / 2] ?? null, limit };
      const done = await acceptByRule(trx, batchId, { shrinks_by: 0.5 }, portion);
      expect(done).toMatchObject({ accepted: limit, held_agents: 0, after: expect.any(String) });
    });
    for (const table of ['held_change', 'block', 'block_revision'])
      expect(Math.max(0, ...rowsReadOf(plans, table))).toBeLessThanOrEqual(3 * limit);
  },
);

test('each further round of forced changes reads its own changes alone', async () => {
  await count('counted');
  await sql`update batch set state = 'completed', completed_at = app_now() where id = ${batchId}`.execute(db);
  const readWith = async (rounds: number): Promise<number> => {
    const sharers = agentIds.slice(0, rounds);
    const plans = await explain(database.url, async (trx) => {
      await sql`
        with one as (select block_id from held_change where batch_id = ${batchId} and agent_id = ${sharers[0]}::uuid),
        v as (insert into block_revision (block_id, revision, project_id, based_on, value, char_limit, read_only)
              select block_id, 2, ${DEFAULT_PROJECT_ID}::uuid, 1, 'edited', 100, false from one),
        b as (update block set head_revision = 2 where id in (select block_id from one))
        update held_change set block_id = (select block_id from one)
         where batch_id = ${batchId} and agent_id = any(${sharers}::uuid[])`.execute(trx);
      const everything = { agent_ids: null, block_ids: null };
      const done = await acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batchId, everything, { kind: 'force' });
      expect(done).toMatchObject({ accepted: AGENTS, stale: [] });
    });
    return rowsReadOf(plans, 'held_change').reduce((sum, rows) => sum + rows, 0);
  };
  expect((await readWith(12)) - (await readWith(2))).toBeLessThan(AGENTS);
});
