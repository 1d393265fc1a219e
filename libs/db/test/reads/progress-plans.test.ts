import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  readBatchWithProgress,
  readEvents,
  readLastEventPlace,
  readProgress,
  readTimeline,
  readTimelineMinutes,
  type Database,
} from '../../src/index.ts';
import type { DB } from '../../src/tables.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, leaveUncounted, nodesOf, rowsReadOf, type Explained } from '../plans.ts';

let database: TestDatabase;
let db: Database;
const TABLES: readonly (keyof DB)[] = [
  ...(['batch', 'batch_tally', 'batch_minute', 'ended_runs', 'sent_steps', 'provider_batch'] as const),
  ...(['run', 'step', 'run_chunk', 'event'] as const),
];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, TABLES);
  // A hundred batches of a thousand runs each that have gone through 200 provider batches over ten hours, and much else.
  await sql`
    insert into batch (id, project_id, state, total, accepted, created_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'running', 1000, 1000, '2026-11-20T00:00:00Z' from generate_series(1, 100)`.execute(
    db,
  );
  await sql`
    insert into batch (id, project_id, state, total, accepted, completed_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, 0, app_now() from generate_series(1, 5000)`.execute(
    db,
  );
  await sql`
    insert into batch_tally (batch_id, slot, project_id, completed, version, last_ended_at)
    select id, s, project_id, 50, 20, '2026-11-20T12:00:30Z' from batch cross join generate_series(0, 7) s where total > 0`.execute(
    db,
  );
  await sql`
    insert into ended_runs (batch_id, slot, version, project_id, run_ids, ended_at)
    select id, s, v, project_id, array[id], '2026-11-20T12:00:30Z' from batch cross join generate_series(0, 7) s cross join generate_series(1, 20) v
     where total > 0`.execute(db);
  await sql`
    insert into batch_minute (batch_id, minute, slot, project_id, ended, failed, input_tokens, output_tokens, cost_nanousd)
    select id, timestamptz '2026-11-20T12:00:00Z' - m * interval '1 minute', s, project_id, 1, 0, 1, 1, 1
      from batch cross join generate_series(0, 599) m cross join generate_series(0, 1) s
     where total > 0`.execute(db);
  await sql`
    insert into provider_batch (id, project_id, credential, state, nonce, request_count, provider_id, submitted_at, submit_started_at,
                                body_bytes, body_sha256, next_due_at, ended_at, ingested_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'default', case when n <= 5 then 'submitted' else 'ingested' end,
           'nonce' || n, 10, 'p' || n, app_now(), app_now(), 1, 'aa', case when n <= 5 then app_now() + interval '1 hour' end,
           case when n > 5 then app_now() end, case when n > 5 then app_now() end
      from generate_series(1, 5000) n`.execute(db);
  await sql`
    insert into sent_steps (batch_id, provider_batch_id, project_id, nonce, steps)
    select b.id, p.id, p.project_id, p.nonce, 10 from batch b cross join (
      select *, row_number() over (order by length(nonce), nonce) as n from provider_batch) p where p.n <= 200 and b.total > 0`.execute(
    db,
  );
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'ready', array[gen_random_uuid()], app_now()
      from generate_series(1, 2000)`.execute(db);
  await sql`
    insert into event (project_id, type, batch_id, data)
    select project_id, 'batch.running', id, '{}' from batch cross join generate_series(1, 200) where total > 0`.execute(
    db,
  );
});
afterAll(() => database.close());

const plansOf = async (work: Parameters<typeof explain>[1]): Promise<readonly Explained[]> => {
  const plans = await explain(database.url, work);
  expect(plans).toHaveLength(1);
  return plans;
};
/** Expects each node of the plans to read at most `max` rows of a table. */
function expectRowsRead(plans: readonly Explained[], max: Partial<Record<keyof DB, number>>): void {
  for (const [table, rows] of Object.entries(max))
    for (const read of rowsReadOf(plans, table)) expect(read, table).toBeLessThanOrEqual(rows);
}

describe.each(['never counted', 'counted'])('with rows %s,', (when) => {
  let batchId = '';
  beforeAll(async () => {
    if (when === 'counted') for (const table of TABLES) await sql`analyze ${sql.table(table)}`.execute(db);
    ({ id: batchId } = await db
      .selectFrom('batch')
      .select('id')
      .where('total', '>', 0)
      .orderBy('id')
      .limit(1)
      .executeTakeFirstOrThrow());
  });
  const PROGRESS_ROWS = {
    ...{ batch: 1, batch_tally: 8, ended_runs: 0, batch_minute: 20, sent_steps: 200, provider_batch: 200 },
    ...{ run: 0, step: 0, run_chunk: 1 },
  };

  test('the progress of a batch reads its own counts, and no run and no step', async () => {
    const plans = await plansOf(async (trx) => {
      const [progress] = await readProgress(trx, DEFAULT_PROJECT_ID, [{ id: batchId, known_version: null }]);
      expect(progress).toMatchObject({
        version: 160,
        facts: { ended: 400, total: 1_000, steps_at_provider: 50, ended_in_window: 20 },
      });
    });
    expectRowsRead(plans, PROGRESS_ROWS);
  });

  test('a batch with its progress reads no more', async () => {
    const plans = await plansOf((trx) => readBatchWithProgress(trx, DEFAULT_PROJECT_ID, batchId));
    expectRowsRead(plans, PROGRESS_ROWS);
  });

  test('a look at batches of known versions reads their counts alone', async () => {
    const { rows } = await sql<{ id: string }>`select id from batch where total > 0`.execute(db);
    const plans = await plansOf((trx) =>
      readProgress(
        trx,
        DEFAULT_PROJECT_ID,
        rows.map(({ id }) => ({ id, known_version: 160 })),
      ),
    );
    const none = { ended_runs: 0, batch_minute: 0, sent_steps: 0, provider_batch: 0, run_chunk: 0 };
    expectRowsRead(plans, { batch_tally: 800, ...none });
  });

  test('a timeline reads the minutes of its batch', async () => {
    expectRowsRead(await plansOf((trx) => readTimeline(trx, batchId, '5m', 10)), { batch_minute: 1_200 });
    expectRowsRead(await plansOf((trx) => readTimelineMinutes(trx, batchId)), { batch_minute: 1 });
  });
});

test('a page of counted events reads its events, and a look at their end one', async () => {
  await sql`analyze event`.execute(db);
  const { rows } = await sql<{ xid: string; id: number }>`
    select xid::text as xid, id from event order by event.xid, event.id offset 10000 limit 1`.execute(db);
  expectRowsRead(await plansOf((trx) => readEvents(trx, DEFAULT_PROJECT_ID, rows[0]!, 100)), { event: 100 });
  const plans = await plansOf((trx) => readLastEventPlace(trx));
  expectRowsRead(plans, { event: 1 });
  expect(plans.flatMap(({ plan }) => [...nodesOf(plan)]).some((node) => node['Node Type'] === 'Sort')).toBe(
    false,
  );
});
