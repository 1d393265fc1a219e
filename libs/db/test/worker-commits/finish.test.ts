import { decideFinish } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  claimDueBatches,
  commitBatchFinish,
  commitOverdueRuns,
  commitParkedRunsReleased,
  commitRunsCancelled,
  deleteOldIdempotencyKeys,
  forgetDeletedItems,
  holdLease,
  inTransaction,
  lockForFinish,
  markFinishedBatches,
  markIdleBatches,
  newId,
  readProviderBatchesOf,
  requestBatchCancel,
  DEFAULT_PROJECT_ID,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun, createTestAgents } from '../factories.ts';
import {
  accept,
  acceptFleet,
  ALICE,
  BOB,
  DONE,
  gate,
  ingest,
  leaseOf,
  seal,
  sealAndEnd,
  submit,
  untilLockIsAwaited,
  clear,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));

async function batch(id: string) {
  return db.selectFrom('batch').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

/** Runs the finish flow for one due batch, and returns the written state; undefined without a due batch. */
async function finish(claimant = ALICE): Promise<string | null | undefined> {
  const [claimed] = await claimDueBatches(db, ['running', 'cancelling'], 1, claimant);
  if (claimed === undefined) return undefined;
  const lease = leaseOf('batch', claimed);
  return inTransaction(db, async (trx) => {
    const state = decideFinish(await lockForFinish(trx, lease));
    await commitBatchFinish(trx, lease, state, 60_000);
    return state;
  });
}

describe('the end of a batch', () => {
  test('is written once, after its last run has ended', async () => {
    const fleet = await acceptFleet(db, 3);
    const lease = await sealAndEnd(db);
    await ingest(db, lease, DONE, { run_ids: fleet.run_ids.slice(0, 2) });
    expect(await markFinishedBatches(db, [fleet.id])).toEqual([]);
    expect(await finish()).toBeUndefined();
    await ingest(db, lease, DONE);
    expect(await markFinishedBatches(db, [fleet.id, fleet.id])).toEqual([fleet.id]);
    expect(await finish()).toBe('completed');
    expect(await batch(fleet.id)).toMatchObject({ state: 'completed', next_due_at: null, lease_owner: null });
    expect((await batch(fleet.id)).completed_at).not.toBeNull();
    expect(await markFinishedBatches(db, [fleet.id])).toEqual([]);
    expect(await markIdleBatches(db)).toEqual([]);
    expect(await finish(BOB)).toBeUndefined();
    expect(await markFinishedBatches(db, [])).toEqual([]);
  });

  test('is not missed when its last two runs end at once: the later commit sees both', async () => {
    for (let round = 0; round < 12; round++) {
      const fleet = await acceptFleet(db, 2);
      const lease = await sealAndEnd(db);
      const marks = await Promise.all(
        fleet.run_ids.map(async (id, slot) => {
          const report = await ingest(db, lease, DONE, { run_ids: [id], slot });
          return markFinishedBatches(db, report.ended_batch_ids);
        }),
      );
      expect(marks.flat().length).toBeGreaterThanOrEqual(1);
      const finished = await Promise.all([finish(ALICE), finish(BOB)]);
      expect(finished.filter((state) => state === 'completed')).toHaveLength(1);
      expect((await batch(fleet.id)).state).toBe('completed');
    }
  });

  test('is not written while a run is open; a later look, or a mark, checks again', async () => {
    const fleet = await acceptFleet(db, 1);
    await sql`update batch set next_due_at = app_now()`.execute(db);
    expect(await finish()).toBeNull();
    const waiting = await batch(fleet.id);
    expect(waiting).toMatchObject({ state: 'running', completed_at: null, lease_owner: null });
    expect(waiting.next_due_at!.getTime() - waiting.updated_at.getTime()).toBeGreaterThan(59_000);
    expect(await finish()).toBeUndefined();
    const report = await ingest(db, await sealAndEnd(db), DONE);
    expect(await markFinishedBatches(db, report.ended_batch_ids)).toEqual([fleet.id]);
    expect(await finish()).toBe('completed');
  });

  test('checked just before the last run ends is marked by the commit that ends the run', async () => {
    const fleet = await acceptFleet(db, 1);
    await sql`update batch set next_due_at = app_now()`.execute(db);
    const lease = await sealAndEnd(db);
    const [looked, committed] = [gate(), gate()];
    const early = inTransaction(db, async (trx) => {
      const [claimed] = await claimDueBatches(trx, ['running'], 1, ALICE);
      const own = leaseOf('batch', claimed!);
      const state = decideFinish(await lockForFinish(trx, own));
      looked.open();
      await committed.opened;
      await commitBatchFinish(trx, own, state, 60_000);
      return state;
    });
    await looked.opened;
    // An existing slot: a new slot would wait for the batch row, which tests the same.
    const ended = ingest(db, lease, DONE).then((report) => markFinishedBatches(db, report.ended_batch_ids));
    await untilLockIsAwaited(db);
    committed.open();
    expect(await early).toBeNull();
    expect(await ended).toEqual([fleet.id]);
    expect(await finish()).toBe('completed');
  });

  test('is found by a look that waited for the mark', async () => {
    const fleet = await acceptFleet(db, 1);
    await sql`update batch set next_due_at = app_now()`.execute(db);
    const lease = await sealAndEnd(db);
    const [claimed] = await claimDueBatches(db, ['running'], 1, ALICE);
    const [marked, committed] = [gate(), gate()];
    const marking = inTransaction(db, async (trx) => {
      await sql`select 1 from batch where id = ${fleet.id}::uuid for no key update`.execute(trx);
      marked.open();
      await committed.opened;
    });
    await marked.opened;
    const looking = inTransaction(db, (trx) => lockForFinish(trx, leaseOf('batch', claimed!)));
    await untilLockIsAwaited(db);
    await ingest(db, lease, DONE);
    committed.open();
    await marking;
    expect(await looking).toMatchObject({ open_runs: 0, completed_runs: 1 });
  });

  test('is `failed` without a completed run', async () => {
    const fleet = await acceptFleet(db, 2);
    await ingest(db, await sealAndEnd(db), {
      kind: 'errored',
      error_class: 'permanent',
      error_type: 'x',
      message: 'no',
    });
    expect(await markIdleBatches(db)).toEqual([fleet.id]);
    expect(await finish()).toBe('failed');
  });

  test('makes the callback due', async () => {
    const fleet = await acceptFleet(db, 1);
    await sql`update batch set callback_url = 'https://example.com'`.execute(db);
    const report = await ingest(db, await sealAndEnd(db), DONE);
    await markFinishedBatches(db, report.ended_batch_ids);
    await finish();
    expect((await batch(fleet.id)).next_due_at).not.toBeNull();
    expect(await finish()).toBeUndefined();
  });
});

describe('the deadline of a run', () => {
  const FUTURE = '2999-01-01T00:00:00.000Z';

  async function deadlines() {
    const rows = await db
      .selectFrom('run')
      .select(['state', 'deadline_at', 'overdue_from'])
      .orderBy('ordinal')
      .execute();
    return rows.map((run) => [
      run.state,
      run.deadline_at?.toISOString() ?? null,
      run.overdue_from?.toISOString() ?? null,
    ]);
  }

  test('is watched while the run is open, in every state, and no longer after its end', async () => {
    const agents = await createTestAgents(db, 3);
    const [answering, trying] = agents.map(({ id }) => ({ ...aRun(id), deadline: FUTURE }));
    const batch = await accept(db, [answering!, trying!, aRun(agents[2]!.id)]);
    const open = [
      ['in_flight', FUTURE, FUTURE],
      ['in_flight', FUTURE, FUTURE],
      ['in_flight', null, null],
    ];
    const lease = await sealAndEnd(db);
    expect(await deadlines()).toEqual(open);
    await ingest(db, lease, DONE, { run_ids: batch.run_ids.slice(0, 1) });
    await ingest(db, lease, { kind: 'expired' });
    expect(await deadlines()).toEqual([
      ['completed', FUTURE, null],
      ['ready', FUTURE, FUTURE],
      ['ready', null, null],
    ]);
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batch.id));
    const [claimed] = await claimDueBatches(db, ['cancelling'], 1, ALICE);
    const place = { from_ordinal: 0, limit: 10 };
    await inTransaction(db, (trx) => commitRunsCancelled(trx, leaseOf('batch', claimed!), place, 0));
    expect(await deadlines()).toEqual([
      ['completed', FUTURE, null],
      ['cancelled', FUTURE, null],
      ['cancelled', null, null],
    ]);
  });

  test('ends a waiting run, and releases a run that awaits its caller, which is found until its end', async () => {
    const PAST = '2020-01-01T00:00:00.000Z';
    const agents = await createTestAgents(db, 2);
    const batch = await accept(
      db,
      agents.map(({ id }) => ({ ...aRun(id), deadline: PAST })),
    );
    await sql`update run set state = 'requires_action' where id = ${batch.run_ids[1]!}::uuid`.execute(db);
    const look = () => inTransaction(db, (trx) => commitOverdueRuns(trx, 10, 0));
    expect(await look()).toMatchObject({ ended: 1, released: 1 });
    expect(await deadlines()).toEqual([
      ['failed', PAST, null],
      ['acting', PAST, PAST],
    ]);
    expect(await look()).toMatchObject({ ended: 0, released: 0 });
  });
});

describe('the sweep', () => {
  test('finds batches that ended without a bell, also without any run', async () => {
    const fleet = await acceptFleet(db, 1);
    await ingest(db, await sealAndEnd(db), DONE);
    const empty = newId();
    await sql`insert into batch (id, project_id, state, total) values (${empty}::uuid, ${DEFAULT_PROJECT_ID}::uuid, 'running', 0)`.execute(
      db,
    );
    const open = await acceptFleet(db, 1);
    expect([...(await markIdleBatches(db))].sort()).toEqual([fleet.id, empty].sort());
    expect([await finish(), await finish(), await finish()]).toEqual(['completed', 'completed', undefined]);
    expect((await batch(open.id)).next_due_at).toBeNull();
  });

  test('and commits that end runs mark batches without a deadlock', async () => {
    const ids = Array.from({ length: 300 }, () => newId());
    // The rows are stored in the opposite order of their ids.
    await sql`insert into batch (id, project_id, state, total)
      select id, ${DEFAULT_PROJECT_ID}::uuid, 'running', 0 from unnest(${[...ids].sort().reverse()}::uuid[]) as t(id)`.execute(
      db,
    );
    for (let round = 0; round < 15; round++) {
      await sql`update batch set next_due_at = null`.execute(db);
      const byId = inTransaction(db, async (trx) => {
        await sql`set local enable_seqscan = off`.execute(trx);
        await sql`set local enable_bitmapscan = off`.execute(trx);
        return markFinishedBatches(trx, ids);
      });
      const marked = await Promise.all([
        byId,
        markIdleBatches(db),
        markFinishedBatches(db, [...ids].reverse()),
        markIdleBatches(db),
      ]);
      expect(marked.flat().length).toBeGreaterThanOrEqual(300);
    }
  });

  test('deletes old idempotency keys', async () => {
    const fleet = await acceptFleet(db, 1);
    await sql`insert into idempotency_key (project_id, key, request_sha256, batch_id, created_at) values
      (${DEFAULT_PROJECT_ID}::uuid, 'old', 'aa', ${fleet.id}::uuid, app_now() - interval '8 days'),
      (${DEFAULT_PROJECT_ID}::uuid, 'new', 'aa', ${fleet.id}::uuid, app_now() - interval '6 days')`.execute(
      db,
    );
    await sql`insert into idempotency_key (project_id, key, request_sha256, made, created_at)
      select ${DEFAULT_PROJECT_ID}::uuid, 'made-' || n, 'aa', '{}', app_now() - interval '8 days' from generate_series(1, 10_001) as n`.execute(
      db,
    );
    await deleteOldIdempotencyKeys(db, 7);
    expect(await db.selectFrom('idempotency_key').select('key').execute()).toHaveLength(3);
    await deleteOldIdempotencyKeys(db, 7);
    expect(await db.selectFrom('idempotency_key').select('key').execute()).toEqual([{ key: 'new' }]);
  });

  test('forgets the places of items deleted long ago', async () => {
    await sql`insert into deleted_item (id, project_id, kind, created_at, deleted_at) values
      (gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'tool', app_now(), app_now() - interval '8 days'),
      (gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'schedule', app_now(), app_now() - interval '6 days')`.execute(
      db,
    );
    await forgetDeletedItems(db, 7);
    expect(await db.selectFrom('deleted_item').select('kind').execute()).toEqual([{ kind: 'schedule' }]);
  });
});

describe('a cancelled batch', () => {
  async function cancel(batchId: string): Promise<void> {
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batchId));
    const claimed = await claimDueBatches(db, ['cancelling'], 10, ALICE);
    const lease = leaseOf(
      'batch',
      claimed.find((row) => row.id === batchId)!,
    );
    await inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      await commitRunsCancelled(trx, lease, { from_ordinal: 0, limit: 1_000 }, 0);
    });
    await inTransaction(db, async (trx) => {
      await commitBatchFinish(trx, lease, decideFinish(await lockForFinish(trx, lease)), 0);
    });
  }

  test('with only waiting runs ends as cancelled at once', async () => {
    const fleet = await acceptFleet(db, 2);
    await cancel(fleet.id);
    expect((await batch(fleet.id)).state).toBe('cancelled');
  });

  test('waits for runs at the provider, stores their answers, and sends nothing more', async () => {
    const fleet = await acceptFleet(db, 2);
    const lease = await sealAndEnd(db);
    await cancel(fleet.id);
    expect((await batch(fleet.id)).state).toBe('cancelling');
    expect(await ingest(db, lease, DONE)).toMatchObject({ ready: false, ended_runs: 2 });
    expect((await seal(db)).count).toBe(0);
    const runs = await db.selectFrom('run').select(['state', 'last_seq']).execute();
    expect(runs).toEqual([
      { state: 'cancelled', last_seq: 2 },
      { state: 'cancelled', last_seq: 2 },
    ]);
    expect(await markFinishedBatches(db, [fleet.id])).toEqual([fleet.id]);
    expect(await finish()).toBe('cancelled');
  });

  test('is processed place by place, past runs at the provider', async () => {
    const fleet = await acceptFleet(db, 6);
    const { rows } = await sql<{ id: string }>`select id from run order by ordinal`.execute(db);
    const runIds = rows.map((row) => row.id);
    // The second run is at the provider, and the last awaits its caller.
    await sql`update run set state = 'in_flight' where id = ${runIds[1]}::uuid`.execute(db);
    await sql`update run set state = 'requires_action' where id = ${runIds[5]}::uuid`.execute(db);
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, fleet.id));
    const [claimed] = await claimDueBatches(db, ['cancelling'], 1, ALICE);
    const lease = leaseOf('batch', claimed!);
    const cancelFrom = (from_ordinal: number) =>
      inTransaction(db, (trx) => commitRunsCancelled(trx, lease, { from_ordinal, limit: 2 }, 0));
    expect(await cancelFrom(0)).toMatchObject({ cancelled: 2, next_ordinal: 3 });
    expect(await cancelFrom(3)).toMatchObject({ cancelled: 2, next_ordinal: 5 });
    expect(await cancelFrom(5)).toMatchObject({ cancelled: 0, next_ordinal: null });
    const release = (from_ordinal: number) =>
      inTransaction(db, (trx) => commitParkedRunsReleased(trx, lease, { from_ordinal, limit: 1 }, 0));
    expect(await release(0)).toEqual({ released: 1, next_ordinal: 6 });
    expect(await release(6)).toEqual({ released: 0, next_ordinal: null });
    // A run that became ready behind the place is found by the next look.
    await sql`update run set state = 'ready' where id = ${runIds[1]}::uuid`.execute(db);
    expect(await cancelFrom(0)).toMatchObject({ cancelled: 1, next_ordinal: null });
  });

  test('lists the provider batches that hold its steps, and marks those that hold no other steps', async () => {
    const alone = await acceptFleet(db, 2);
    const first = await seal(db);
    await submit(db, first.id);
    const mixed = await acceptFleet(db, 1);
    await acceptFleet(db, 1);
    const second = await seal(db);
    for (const id of [alone.id, mixed.id])
      await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, id));
    expect(await inTransaction(db, (trx) => readProviderBatchesOf(trx, alone.id))).toEqual([
      { id: first.id, state: 'submitted', exclusive: true },
    ]);
    expect(await inTransaction(db, (trx) => readProviderBatchesOf(trx, mixed.id))).toEqual([
      { id: second.id, state: 'building', exclusive: false },
    ]);
  });
});
