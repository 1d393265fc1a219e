import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  claimDueBatches,
  claimForgottenBatch,
  commitUsagePortion,
  DEFAULT_PROJECT_ID,
  forgetExpiredBatches,
  inTransaction,
  readDueWork,
  readScheduleSpending,
  readUsage,
  removePortion,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, leaveUncounted, nodesOf, rowsReadOf, type Explained } from '../plans.ts';
import { acceptBareFleet, ALICE, clear, DONE, ingest, leaseOf, sealAndEnd } from './night-shift.ts';
import { DUE_QUESTION } from '../due-question.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['run', 'step', 'message', 'conversation', 'batch', 'agent', 'forgotten_batch']);
});
afterAll(() => database.close());

const RUNS = 5_000;
const PORTION = 200;
const QUESTION = { ...DUE_QUESTION, late_runs_max: 1_000 } as const;

test('a portion of a forgotten batch reads its own runs and their rows, without statistics', async () => {
  const { id } = await acceptBareFleet(db, RUNS);
  await acceptBareFleet(db, RUNS);
  await sql`
    update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(), overdue_from = null where batch_id = ${id}::uuid`.execute(
    db,
  );
  await sql`
    insert into forgotten_batch (id, project_id, state, created_at, completed_at, cost_nanousd, next_due_at, next_ordinal)
    values (${id}, ${DEFAULT_PROJECT_ID}, 'cancelled', app_now(), app_now(), 0, app_now(), 1000)`.execute(db);
  const batch = await claimForgottenBatch(db, ALICE);
  const plans = await explain(database.url, (trx) =>
    removePortion(trx, leaseOf('forgotten_batch', batch!), PORTION),
  );
  for (const { statement, plan } of plans) {
    for (const node of nodesOf(plan)) {
      const relation = node['Node Type'] === 'Seq Scan' ? (node['Relation Name'] ?? '') : '';
      const scanned = ['run', 'message', 'conversation', 'agent'].includes(relation);
      expect({ statement, relation, scanned }).toEqual({ statement, relation, scanned: false });
    }
  }
  expect(Math.max(...rowsReadOf(plans, 'run'))).toBeLessThanOrEqual(2 * PORTION);
});

test('a look for expired batches reads none that are kept', async () => {
  await sql`
    insert into batch (id, project_id, state, total, completed_at, expires_in_days, expires_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, app_now(), 9, app_now() + interval '9 days'
      from generate_series(1, 1000)
    union all
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, app_now(), null, null from generate_series(1, 1000)`.execute(
    db,
  );
  await sql`analyze batch`.execute(db);
  const look = (trx: Tx) => forgetExpiredBatches(trx, 30, 100);
  for (const each of await explain(database.url, look))
    expect(rowsReadOf([each], 'batch').every((rows) => rows === 0)).toBe(true);
});

test('a look for work examines a bounded number of old batches, and none that go by a time of their own', async () => {
  await sql`delete from batch`.execute(db);
  await sql`
    insert into batch (id, project_id, state, total, apply, completed_at, expires_in_days, expires_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, 'auto', app_now() - interval '40 days', 90, app_now() + interval '50 days'
      from generate_series(1, 2000)
    union all
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, 'review', app_now() - interval '40 days', null, null
      from generate_series(1, 8000)`.execute(db);
  await inTransaction(db, async (trx) => {
    // Under review, without blocks.
    await sql`set local session_replication_role = replica`.execute(trx);
    await sql`
      insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, run_id, step_number, tool_use_id)
      select id, id, id, project_id, id, 'dropped', id, 1, 'a' from batch where apply = 'review'`.execute(
      trx,
    );
  });
  // A callback that waits reads its own event, and no other.
  await sql`
    insert into event (project_id, type, batch_id, data)
    select ${DEFAULT_PROJECT_ID}::uuid, 'batch.running', gen_random_uuid(), '{}' from generate_series(1, 5000)`.execute(
    db,
  );
  await sql`
    insert into callback_event (xid, id, project_id, next_due_at)
    select xid, id, project_id, app_now() + interval '1 hour' from event limit 1`.execute(db);
  const lookAt = async (): Promise<{ readonly forget: boolean; readonly read: number }> => {
    let forget = false;
    const plans = await explain(database.url, async (trx) => {
      ({ forget } = await readDueWork(trx, QUESTION));
    });
    expect(Math.max(...rowsReadOf(plans, 'event'))).toBeLessThanOrEqual(1);
    return { forget, read: Math.max(...rowsReadOf(plans, 'batch')) };
  };
  for (const isCounted of [false, true]) {
    if (isCounted) await sql`analyze batch, held_change`.execute(db);
    expect(await lookAt()).toEqual({ forget: false, read: 1_000 });
  }
  // A batch that waits for no review is found behind them.
  await sql`
    insert into batch (id, project_id, state, total, completed_at)
    values (gen_random_uuid(), ${DEFAULT_PROJECT_ID}, 'completed', 0, app_now() - interval '31 days')`.execute(
    db,
  );
  expect(await lookAt()).toMatchObject({ forget: true });
});

test('a portion of usage reads its own runs and their steps, and a live sum none of later batches', async () => {
  await clear(db);
  const { id } = await acceptBareFleet(db, RUNS);
  await ingest(db, await sealAndEnd(db), DONE);
  await sql`update batch set next_due_at = app_now() where id = ${id}::uuid`.execute(db);
  const [claimed] = await claimDueBatches(db, ['running'], 1, ALICE);
  const lease = leaseOf('batch', claimed!);
  const readOf = (plans: readonly Explained[]) => ({
    runs: Math.max(...rowsReadOf(plans, 'run')),
    steps: Math.max(...rowsReadOf(plans, 'step')),
  });
  for (const isCounted of [false, true]) {
    if (isCounted) await sql`analyze run, step, batch`.execute(db);
    const portion = await explain(database.url, (trx) => commitUsagePortion(trx, lease, RUNS, PORTION));
    expect(readOf(portion)).toEqual({ runs: PORTION, steps: PORTION });
    const days = { from: '2020-01-01', to: '2020-01-31' };
    const past = await explain(database.url, (trx) => readUsage(trx, DEFAULT_PROJECT_ID, days, 'day'));
    expect(readOf(past)).toEqual({ runs: 0, steps: 0 });
  }
});

test('a forgotten batch counts for the monthly cap of its schedule', async () => {
  const span = {
    id: '01890000-0000-7000-8000-00000000000a',
    from: new Date('2026-01-01'),
    to: new Date('2026-02-01'),
  };
  await sql`
    insert into forgotten_batch (id, project_id, state, created_at, completed_at, schedule_id, tick_due_at, cost_nanousd, next_due_at)
    values (gen_random_uuid(), ${DEFAULT_PROJECT_ID}, 'completed', '2026-01-15', '2026-01-15', ${span.id}, '2026-01-15', 7, app_now())`.execute(
    db,
  );
  expect((await readScheduleSpending(db, [span])).get(span.id)).toEqual({
    spent_nanousd: 7,
    committed_nanousd: 7,
  });
});
