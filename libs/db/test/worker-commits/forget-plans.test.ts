import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  claimForgottenBatch,
  DEFAULT_PROJECT_ID,
  forgetExpiredBatches,
  readScheduleSpending,
  removePortion,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, leaveUncounted, nodesOf, rowsReadOf } from '../plans.ts';
import { acceptBareFleet, ALICE, leaseOf } from './night-shift.ts';

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
