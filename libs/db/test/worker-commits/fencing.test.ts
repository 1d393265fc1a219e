import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  claimDueBatches,
  claimProviderBatch,
  claimToolsChunk,
  commitAdopted,
  commitBatchFinish,
  commitCallback,
  commitCancelRequested,
  commitDisproved,
  commitIngested,
  commitPolled,
  commitRefused,
  commitRejected,
  commitSearchedAgain,
  commitSplit,
  commitStreamAgain,
  commitSubmitted,
  commitUnknown,
  commitUnsealed,
  commitWithdrawn,
  commitWriteAhead,
  holdLease,
  inTransaction,
  lockForFinish,
  newId,
  type Database,
  type Lease,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptFleet,
  ALICE,
  BOB,
  callsTools,
  claim,
  end,
  ingest,
  later,
  leaseOf,
  newNonce,
  seal,
  submit,
  writeAhead,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() =>
  sql`truncate batch, run, provider_batch, run_chunk, step, message, tool_call cascade`.execute(db),
);

type State = 'building' | 'submitting' | 'unknown' | 'submitted' | 'ended';

/** Creates a provider batch of two steps in the given state, held by ALICE. */
async function heldIn(state: State): Promise<Lease> {
  await acceptFleet(db, 2);
  const { id } = await seal(db);
  switch (state) {
    case 'building':
      return claim(db, id, 'building');
    case 'submitting':
      return writeAhead(db, id);
    case 'unknown': {
      const lease = await writeAhead(db, id);
      await inTransaction(db, (trx) => commitUnknown(trx, lease, 'test', 0));
      return claim(db, id, 'unknown');
    }
    case 'submitted':
      await submit(db, id);
      return claim(db, id, 'submitted');
    case 'ended':
      return end(db, id);
  }
}

const remote = { provider_id: 'msgbatch_late', expires_at: null };
const body = { request_count: 2, bytes: 1, sha256: 'aa' };
const pass = { streamed: true, missing: false, lines_refused: 0, reason: 'late', delay_ms: 0 };

/** Every commit under the lease of a provider batch, with its expected state. */
const COMMITS: readonly {
  readonly name: string;
  readonly state: State;
  commit(trx: Tx, lease: Lease): Promise<unknown>;
}[] = [
  { name: 'commitWriteAhead', state: 'building', commit: (trx, lease) => commitWriteAhead(trx, lease, body) },
  {
    name: 'commitUnsealed',
    state: 'building',
    commit: (trx, lease) => commitUnsealed(trx, lease, 1),
  },
  {
    name: 'commitRejected',
    state: 'building',
    commit: (trx, lease) => commitRejected(trx, lease, 'building', {}),
  },
  {
    name: 'commitSubmitted',
    state: 'submitting',
    commit: (trx, lease) => commitSubmitted(trx, lease, remote, 0),
  },
  { name: 'commitRefused', state: 'submitting', commit: (trx, lease) => commitRefused(trx, lease, {}, 0) },
  {
    name: 'commitUnknown',
    state: 'submitting',
    commit: (trx, lease) => commitUnknown(trx, lease, 'late', 0),
  },
  {
    name: 'commitSplit',
    state: 'submitting',
    commit: (trx, lease) =>
      commitSplit(trx, lease, 'submitting', 1, { id: newId(), nonce: newNonce() }, newNonce()),
  },
  {
    name: 'commitRejected',
    state: 'submitting',
    commit: (trx, lease) => commitRejected(trx, lease, 'submitting', {}),
  },
  { name: 'commitAdopted', state: 'unknown', commit: (trx, lease) => commitAdopted(trx, lease, remote) },
  {
    name: 'commitSearchedAgain',
    state: 'unknown',
    commit: (trx, lease) => commitSearchedAgain(trx, lease, true, 0),
  },
  {
    name: 'commitWithdrawn',
    state: 'unknown',
    commit: (trx, lease) => commitWithdrawn(trx, lease, newNonce()),
  },
  { name: 'commitCancelRequested', state: 'submitted', commit: commitCancelRequested },
  {
    name: 'commitRejected',
    state: 'submitted',
    commit: (trx, lease) => commitRejected(trx, lease, 'submitted', {}),
  },
  {
    name: 'commitDisproved',
    state: 'submitted',
    commit: (trx, lease) => commitDisproved(trx, lease, 'submitted'),
  },
  { name: 'commitIngested', state: 'ended', commit: (trx, lease) => commitIngested(trx, lease, 0) },
  {
    name: 'commitDisproved',
    state: 'ended',
    commit: (trx, lease) => commitDisproved(trx, lease, 'ended'),
  },
  { name: 'commitStreamAgain', state: 'ended', commit: (trx, lease) => commitStreamAgain(trx, lease, pass) },
];

/** Reads everything that a late commit could change. */
async function everything(): Promise<unknown> {
  const { rows } = await sql`
    select (select json_agg(p order by p.id) from provider_batch p) as provider_batches,
           (select json_agg(s order by s.run_id, s.number, s.attempt) from step s) as steps,
           (select json_agg(r order by r.id) from run r) as runs,
           (select json_agg(c order by c.id) from run_chunk c) as chunks,
           (select json_agg(b order by b.id) from batch b) as batches`.execute(db);
  return rows[0];
}

describe('an overtaken worker changes nothing', () => {
  test.each(COMMITS)('$name from $state is refused as fenced', async ({ state, commit }) => {
    const lease = await heldIn(state);
    const taken = await later(db, 60_000, (trx) => claimProviderBatch(trx, lease.id, state, BOB));
    expect(taken).toMatchObject({ lease_epoch: lease.epoch + 1 });
    const before = await everything();
    await expect(inTransaction(db, (trx) => commit(trx, lease))).rejects.toMatchObject({ code: 'fenced' });
    expect(await everything()).toEqual(before);
  });

  test.each(COMMITS)('$name is refused when the row has left $state', async ({ state, commit }) => {
    const lease = await heldIn(state);
    const elsewhere = state === 'ended' ? 'submitted' : 'ended';
    await sql`update provider_batch set state = ${elsewhere}, ended_at = app_now(), submitted_at = app_now(), provider_id = 'x',
      submit_started_at = app_now(), body_bytes = 1, body_sha256 = 'a' where id = ${lease.id}::uuid`.execute(
      db,
    );
    const before = await everything();
    await expect(inTransaction(db, (trx) => commit(trx, lease))).rejects.toMatchObject({ code: 'fenced' });
    expect(await everything()).toEqual(before);
  });

  test('a poll skips rows that were taken over, and writes the others', async () => {
    const [lost, kept] = [await heldIn('submitted'), await heldIn('submitted')];
    await later(db, 60_000, (trx) => claimProviderBatch(trx, lost.id, 'submitted', BOB));
    const move = { move: 'ended', delay_ms: 0, missing: false } as const;
    const ended = await inTransaction(db, (trx) =>
      commitPolled(
        trx,
        [lost, kept].map((lease) => ({ lease, ...move })),
      ),
    );
    expect(ended).toEqual([kept.id]);
    const rows = await db
      .selectFrom('provider_batch')
      .select(['id', 'state', 'lease_owner'])
      .orderBy('id')
      .execute();
    expect(rows).toEqual([
      { id: lost.id, state: 'submitted', lease_owner: 'bob' },
      { id: kept.id, state: 'ended', lease_owner: null },
    ]);
  });

  test('answers are not applied under a lost lease', async () => {
    const lease = await heldIn('ended');
    await later(db, 60_000, (trx) => claimProviderBatch(trx, lease.id, 'ended', BOB));
    const before = await everything();
    await expect(ingest(db, lease, callsTools())).rejects.toMatchObject({ code: 'fenced' });
    expect(await everything()).toEqual(before);
  });

  test('tool results are not applied under a lost lease', async () => {
    await ingest(db, await heldIn('ended'), callsTools());
    const chunk = await claimToolsChunk(db, ALICE);
    await later(db, 60_000, (trx) => claimToolsChunk(trx, BOB));
    await expect(
      inTransaction(db, (trx) => holdLease(trx, leaseOf('run_chunk', chunk!))),
    ).rejects.toMatchObject({ code: 'fenced' });
  });

  test('a batch is not ended under a lost lease', async () => {
    const batch = await acceptFleet(db, 1);
    await sql`update batch set next_due_at = app_now()`.execute(db);
    const [claimed] = await claimDueBatches(db, ['running'], 1, ALICE);
    const lease = leaseOf('batch', claimed!);
    await later(db, 60_000, (trx) => claimDueBatches(trx, ['running'], 1, BOB));
    await expect(inTransaction(db, (trx) => lockForFinish(trx, lease))).rejects.toMatchObject({
      code: 'fenced',
    });
    await expect(
      inTransaction(db, (trx) => commitBatchFinish(trx, lease, 'completed', 0)),
    ).rejects.toMatchObject({ code: 'fenced' });
    const delivery = { delivered: true, status_code: 200, error: null, delay_ms: null };
    await expect(inTransaction(db, (trx) => commitCallback(trx, lease, delivery))).rejects.toMatchObject({
      code: 'fenced',
    });
    const row = await db
      .selectFrom('batch')
      .select(['state', 'lease_owner'])
      .where('id', '=', batch.id)
      .executeTakeFirst();
    expect(row).toEqual({ state: 'running', lease_owner: 'bob' });
  });
});
