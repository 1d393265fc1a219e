import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  listBatches,
  listFailures,
  newId,
  readFailureGroups,
  type BatchRow,
  type Database,
  type Tx,
} from '../../src/index.ts';
import type { BatchFilter } from '../../src/reads/batch/batch-filter.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, rowsReadOf } from '../plans.ts';
import { acceptBareFleet } from '../worker-commits/night-shift.ts';

const BATCHES = 1_000_000;
const FAILURES = 1_000_000;
const PAGE = { limit: 50, order: 'desc', after: null, before: null } as const;

let database: TestDatabase;
let db: Database;
let schedule_id = '';
let retried = '';
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  schedule_id = newId();
  await quickly(async (trx) => {
    await storeBatches(trx);
    await sql`analyze batch, batch_label`.execute(trx);
  });
  const { rows } = await sql<{ id: string }>`
    select id from batch where schedule_id is not null order by created_at limit 1`.execute(db);
  retried = rows[0]?.id ?? '';
  await sql`update batch set retry_of = ${retried}::uuid
    where id in (select id from batch where schedule_id is not null order by created_at desc limit 3)`.execute(
    db,
  );
});
afterAll(() => database.close());

/** Stores many rows without checks of their references, and without a time limit. */
function quickly(work: (trx: Tx) => Promise<void>): Promise<void> {
  return inTransaction(db, async (trx) => {
    await sql`set local statement_timeout = 0`.execute(trx);
    await sql`set local session_replication_role = replica`.execute(trx);
    await work(trx);
  });
}

/**
 * Stores the batches, a second apart. Every second one has the common tag, every fourth a common part of its name, a thousandth the
 * rare ones; 20 are open; the others are listed under the same property of metadata.
 */
async function storeBatches(trx: Tx): Promise<void> {
  await sql`insert into schedule (id, project_id, name, cron, time_zone, body, state, tick_due_at, next_due_at)
    values (${schedule_id}::uuid, ${DEFAULT_PROJECT_ID}::uuid, 'nightly', '0 2 * * *', 'UTC', '{}', 'active', now(), now())`.execute(
    trx,
  );
  // An index of words is built faster than it is maintained.
  const { rows } = await sql<{ indexdef: string }>`
    select indexdef from pg_indexes where indexname = 'batch_by_name'`.execute(trx);
  await sql`drop index batch_by_name`.execute(trx);
  await sql`
    insert into batch (id, project_id, state, total, accepted, created_at, completed_at, name, tags, schedule_id, tick_due_at, metadata)
    select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${DEFAULT_PROJECT_ID}::uuid,
           case when n % 50000 = 7 then 'running' else 'completed' end, 0, 0, '2026-01-01'::timestamptz + n * interval '1 second',
           case when n % 50000 <> 7 then '2026-12-01'::timestamptz end,
           case when n % 1000 = 1 then 'Rare ' || n when n % 4 = 0 then 'Tickets ' || n end,
           case when n % 1000 = 1 then '{rare}'::text[] when n % 2 = 0 then '{common}' else '{}' end,
           case when n % 1000 = 2 then ${schedule_id}::uuid end, case when n % 1000 = 2 then now() end, '{"team":"sales"}'
      from generate_series(1, ${BATCHES}::int) n`.execute(trx);
  await sql.raw(rows[0]?.indexdef ?? '').execute(trx);
  await sql`
    insert into batch_label (project_id, label, created_at, batch_id)
    select b.project_id, l.label, b.created_at, b.id
      from batch b cross join lateral (values ('tag ' || b.tags[1]), (case when b.tags = '{}' then 'metadata team "sales"' end)) l(label)
     where l.label is not null`.execute(trx);
}

/** Stores old failures, a second apart, and those of the runs of a batch as the last. */
async function storeFailures(trx: Tx, lastBatchId: string): Promise<void> {
  await sql`
    insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
    select ('01900000-0000-7000-8000-' || lpad(to_hex(n / 1000), 12, '0'))::uuid,
           ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${DEFAULT_PROJECT_ID}::uuid,
           '2026-01-01'::timestamptz + n * interval '1 second', 'failed', 'poison', 'No.', 'a'
      from generate_series(1, ${FAILURES}::int) n`.execute(trx);
  await sql`
    insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
    select batch_id, id, project_id, '2026-12-01'::timestamptz + ordinal * interval '1 second', 'failed', 'poison', 'No.', 'a'
      from run where batch_id = ${lastBatchId}::uuid`.execute(trx);
}

/** Lists batches, and counts the rows of batches and labels that the largest look read. */
async function read(
  filter: BatchFilter,
  page: Parameters<typeof listBatches>[2] = PAGE,
): Promise<{ readonly listed: readonly BatchRow[]; readonly rows: number }> {
  let listed: readonly BatchRow[] = [];
  const plans = await explain(database.url, async (trx) => {
    listed = (await listBatches(trx, DEFAULT_PROJECT_ID, page, filter)).rows;
  });
  return { listed, rows: Math.max(...rowsReadOf(plans, 'batch'), ...rowsReadOf(plans, 'batch_label'), 0) };
}

describe(`a list of ${BATCHES.toLocaleString('en')} batches`, () => {
  test.each<[string, BatchFilter, number]>([
    ['without a filter', {}, 50],
    ['in a common state', { state: 'completed' }, 50],
    ['in a rare state', { state: 'running' }, 20],
    ['with a common tag', { tag: 'common' }, 50],
    ['with a rare tag', { tag: 'rare' }, 50],
    ['with a common property', { metadata: { team: 'sales' } }, 50],
    ['with a property that none has', { metadata: { team: 'none' } }, 0],
    ['of a schedule', { schedule_id: '' }, 50],
    ['that try a batch again', { retry_of: '' }, 3],
    ['of a time', { created_after: '2026-01-02T00:00:00Z', created_before: '2026-01-02T00:01:00Z' }, 50],
    ['of a tag and a time', { tag: 'rare', created_before: '2026-01-02T00:00:00Z' }, 50],
    ['of a state and a time', { state: 'completed', created_before: '2026-01-02T00:00:00Z' }, 50],
  ])('%s reads hardly more rows than its page', async (_name, filter, expected) => {
    const filled = {
      ...filter,
      ...(filter.schedule_id === undefined ? {} : { schedule_id }),
      ...(filter.retry_of === undefined ? {} : { retry_of: retried }),
    };
    const { listed, rows } = await read(filled);
    expect(listed).toHaveLength(expected);
    expect(rows).toBeLessThanOrEqual(120);
    if (expected < PAGE.limit) return;
    const next = await read(filled, { ...PAGE, after: listed.at(-1)?.id ?? null });
    expect(next.rows).toBeLessThanOrEqual(120);
  });

  test.each<[string, BatchFilter]>([
    ['a tag', { state: 'running', tag: 'common' }],
    ['a schedule', { state: 'running', schedule_id: '' }],
    ['a part of the name', { state: 'running', name: 'tickets' }],
  ])('in an open state and by %s looks at few rows beyond the open batches', async (_name, filter) => {
    const filled = filter.schedule_id === undefined ? filter : { ...filter, schedule_id };
    const { rows } = await read(filled);
    expect(rows).toBeLessThanOrEqual(1_100);
  });

  test('by a part of the name finds a rare part by its index, and a common part by the walk', async () => {
    const rare = await read({ name: 'Rare 5' });
    expect(rare.listed.length).toBeGreaterThan(0);
    expect(rare.rows).toBeLessThanOrEqual(2_000);
    const common = await read({ name: 'tickets' });
    expect(common.listed).toHaveLength(50);
    expect(common.rows).toBeLessThanOrEqual(2_000);
    const none = await read({ name: 'no such name' });
    expect(none.listed).toEqual([]);
    expect(none.rows).toBeLessThanOrEqual(2_000);
  });
});

describe(`failed runs among ${FAILURES.toLocaleString('en')}`, () => {
  beforeAll(async () => {
    const last = await acceptBareFleet(db, 200);
    await quickly(async (trx) => {
      await storeFailures(trx, last.id);
      await sql`analyze run_failure, run`.execute(trx);
    });
  });

  test('are read a page at a time', async () => {
    let seen: readonly { run_id: string }[] = [];
    for (const after of [null, 'last'])
      for (const plans of [
        await explain(database.url, async (trx) => {
          const page = { ...PAGE, after: after === null ? null : (seen.at(-1)?.run_id ?? null) };
          seen = (await listFailures(trx, DEFAULT_PROJECT_ID, page, { since: null, until: null })).rows;
        }),
      ]) {
        expect(seen).toHaveLength(50);
        expect(Math.max(...rowsReadOf(plans, 'run_failure'))).toBeLessThanOrEqual(60);
        expect(Math.max(...rowsReadOf(plans, 'run'))).toBeLessThanOrEqual(60);
      }
  });

  test('of a time are found by their index', async () => {
    const plans = await explain(database.url, async (trx) => {
      const range = { since: '2026-01-02T00:00:00Z', until: '2026-01-02T00:01:00Z' };
      await listFailures(trx, DEFAULT_PROJECT_ID, PAGE, range);
    });
    expect(Math.max(...rowsReadOf(plans, 'run_failure'))).toBeLessThanOrEqual(60);
  });

  test('are grouped by reading those of their batch alone', async () => {
    const { rows } = await sql<{ id: string }>`select id from batch where total = 200`.execute(db);
    const plans = await explain(database.url, async (trx) => {
      const groups = await readFailureGroups(trx, rows[0]?.id ?? '', 100);
      expect(groups).toMatchObject({ runs: 200, groups_total: 1 });
    });
    expect(Math.max(...rowsReadOf(plans, 'run_failure'))).toBeLessThanOrEqual(200);
  });
});
