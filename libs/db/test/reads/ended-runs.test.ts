import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import {
  commitDecisions,
  DEFAULT_PROJECT_ID,
  holdLease,
  inTransaction,
  newId,
  readEndedRuns,
  TALLY_SLOTS,
  type Database,
  type EndedRunsRow,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptBareFleet,
  clear,
  decide,
  DONE,
  gate,
  ingest,
  sealAndEnd,
  untilLockIsAwaited,
} from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));

const START: readonly number[] = Array.from({ length: TALLY_SLOTS }, () => 0);

/** Returns the position behind commits that were read. */
const behind = (versions: readonly number[], read: readonly EndedRunsRow[]): readonly number[] =>
  versions.map((version, slot) =>
    Math.max(version, ...read.filter((row) => row.slot === slot).map((row) => row.version)),
  );

test('a commit under way hides no later commit of its slot from a reader, and none of other slots', async () => {
  const fleet = await acceptBareFleet(db, 4);
  const lease = await sealAndEnd(db);
  const [first = '', second = '', third = '', fourth = ''] = fleet.run_ids;
  await ingest(db, lease, DONE, { run_ids: [first], slot: 3 });
  const { opened, open } = gate();
  const held = gate();
  const decided = await decide(db, new Map([[second, DONE]]));
  const slow = inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    const report = await commitDecisions(trx, decided, 3);
    held.open();
    await opened;
    return report;
  });
  await held.opened;
  const waiting = ingest(db, lease, DONE, { run_ids: [third], slot: 3 });
  await untilLockIsAwaited(db);
  await ingest(db, lease, DONE, { run_ids: [fourth], slot: 5 });
  const before = await readEndedRuns(db, fleet.id, START);
  expect(before.map((row) => row.run_ids)).toEqual([[first], [fourth]]);
  open();
  await Promise.all([slow, waiting]);
  const after = await readEndedRuns(db, fleet.id, behind(START, before));
  expect(after.map((row) => row.run_ids)).toEqual([[second], [third]]);
  expect(after.map((row) => row.version)).toEqual([2, 3]);
  expect(await readEndedRuns(db, fleet.id, behind(behind(START, before), after))).toEqual([]);
});

test('the order depends on rows and position alone, whatever the clocks said', async () => {
  const batchId = newId();
  // Times of a slot run backwards, several are equal, and a page ends within them.
  await sql`
    insert into ended_runs (batch_id, slot, version, project_id, run_ids, ended_at)
    select ${batchId}::uuid, slot, 3 * n, ${DEFAULT_PROJECT_ID}::uuid, array[gen_random_uuid()],
           '2026-11-01'::timestamptz + (n - (slot * 7 + n * 13) % 40) * interval '1 second'
      from generate_series(0, ${TALLY_SLOTS - 1}) slot, generate_series(1, 200) n
     where slot <> 6`.execute(db);
  const readAll = async (from: readonly number[]): Promise<readonly EndedRunsRow[]> => {
    const read = await readEndedRuns(db, batchId, from);
    return read.length === 0 ? [] : [...read, ...(await readAll(behind(from, read)))];
  };
  const whole = await readAll(START);
  expect(whole).toHaveLength(7 * 200);
  expect(new Set(whole.map((row) => row.run_ids[0])).size).toBe(whole.length);
  for (let place = 0; place < whole.length; place += 61)
    expect(await readAll(behind(START, whole.slice(0, place)))).toEqual(whole.slice(place));
});
