import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { addToTallies } from '../../src/commits/batch/tallies.ts';
import { DEFAULT_PROJECT_ID, inTransaction, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { acceptBareFleet, gate } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

let batchId = '';
beforeEach(async () => {
  await sql`delete from event`.execute(db);
  ({ id: batchId } = await acceptBareFleet(db, 2));
});

/** Changes the number of waiting runs in a slot; `counted` runs before the commit. */
const change = (
  requires_action: number,
  slot: number,
  counted: () => Promise<void> = () => Promise.resolve(),
): Promise<void> =>
  inTransaction(db, async (trx) => {
    const tally = { batch_id: batchId, project_id: DEFAULT_PROJECT_ID, requires_action };
    await addToTallies(trx, [tally], slot);
    await counted();
  });

/** Commits a change while another one, counted before, is open. */
async function overlap(first: readonly [number, number], second: readonly [number, number]): Promise<void> {
  const [counted, mayCommit] = [gate(), gate()];
  const held = change(...first, () => {
    counted.open();
    return mayCommit.opened;
  });
  await counted.opened;
  const waiting = change(...second);
  await untilLockIsAwaited();
  mayCommit.open();
  await Promise.all([held, waiting]);
}

async function told(): Promise<readonly unknown[]> {
  const { rows } = await sql<{ data: unknown }>`
    select data from event where batch_id = ${batchId}::uuid and type = 'batch.requires_action' order by xid, id
  `.execute(db);
  return rows.map(({ data }) => data);
}

test('the first of several waiting runs is told, and the first after none waited any more', async () => {
  await change(2, 0);
  await change(1, 1);
  expect(await told()).toEqual([{ runs: 2 }]);
  await change(-2, 3);
  await change(1, 2);
  expect(await told()).toHaveLength(1);
  await change(-2, 0);
  await change(3, 5);
  expect(await told()).toEqual([{ runs: 2 }, { runs: 3 }]);
});

test('of two commits at once over different slots one tells', async () => {
  await overlap([1, 0], [1, 1]);
  expect(await told()).toEqual([{ runs: 1 }]);
});

test('a run that begins to wait while the last waiting run goes on is told', async () => {
  await change(1, 0);
  await overlap([-1, 0], [1, 1]);
  expect(await told()).toHaveLength(2);
});

/** Waits until a statement of this database waits for a lock. */
async function untilLockIsAwaited(): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ waits: boolean }>`
      select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waits
    `.execute(db);
    if (rows[0]?.waits === true) return;
  }
}
