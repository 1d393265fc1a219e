import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, revertBatch, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { explain, leaveUncounted, nodesOf } from '../plans.ts';
import { accept, acceptBareFleet } from '../worker-commits/night-shift.ts';

/** Number of blocks of the batch, and of blocks held by another. */
const BLOCKS = 8_000;

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['block', 'block_revision']);
});
afterAll(() => database.close());

test('a revert scans no list of blocks per block when statistics saw no held block', async () => {
  const fleet = await acceptBareFleet(db, 1);
  const { id: batchId } = await accept(
    db,
    fleet.agent_ids.map((id) => aRun(id)),
  );
  await sql`
    with r as materialized (select run.*, gen_random_uuid() as block_id from run, generate_series(1, ${BLOCKS}::int)
                             where batch_id = ${batchId}),
    b as (insert into block (id, project_id, label, head_revision) select block_id, project_id, 'notes', 7 from r)
    insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                step_number, tool_use_id, resolution)
    select block_id, n, project_id, repeat('x', 200) || n, 1000, false, nullif(n - 1, 0), null, null::uuid, null::int, null, null
      from r, generate_series(1, 6) n
    union all
    select block_id, 7, project_id, 'after', 1000, false, 6, batch_id, id, 1, 'toolu_1', 'clean' from r`.execute(
    db,
  );
  await sql`analyze block, block_revision`.execute(db);
  await sql`
    insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
    select gen_random_uuid(), run.project_id, 'notes', 1, app_now(), batch_id from run, generate_series(1, ${BLOCKS}::int)
     where batch_id = ${batchId}`.execute(db);
  await sql`update batch set state = 'completed', completed_at = app_now() where id = ${batchId}`.execute(db);

  const plans = await explain(database.url, async (trx) => {
    const { restored, refused } = await revertBatch(trx, DEFAULT_PROJECT_ID, batchId, false);
    expect([restored.length, refused]).toEqual([BLOCKS, []]);
  });
  const handled = plans
    .flatMap(({ plan }) => [...nodesOf(plan)])
    .map(
      (node) =>
        (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 1) + (node['Rows Removed by Join Filter'] ?? 0),
    );
  expect(Math.max(0, ...handled)).toBeLessThanOrEqual(10 * BLOCKS);
});
