import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import {
  commitAdopted,
  commitProven,
  commitSubmitted,
  commitUnknown,
  commitWithdrawn,
  inTransaction,
  newId,
  readOpenDoubts,
  type Database,
  type Lease,
  type ProvenOutcome,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { acceptFleet, claim, DONE, ingest, newNonce, seal, writeAhead } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() =>
  sql`truncate batch, run, provider_batch, run_chunk, step, message, tool_call, doubted_submission cascade`.execute(
    db,
  ),
);

const row = (id: string) =>
  db.selectFrom('provider_batch').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
const orphans = () =>
  db.selectFrom('provider_batch').select('provider_id').where('state', '=', 'orphan_paid').execute();

/** A submission in flight with its lease, and a function that proves its batch. */
async function sent(): Promise<{ readonly lease: Lease; prove(providerId: string): Promise<ProvenOutcome> }> {
  await acceptFleet(db, 2);
  const { id } = await seal(db);
  const lease = await writeAhead(db, id);
  const { nonce, project_id, credential, request_count } = await row(id);
  const of = { nonce, project_id, credential, request_count, provider_batch_id: id };
  return {
    lease,
    prove: (provider_id) =>
      inTransaction(db, (trx) =>
        commitProven(
          trx,
          { provider_id, expires_at: null, of },
          { id: newId(), nonce: newNonce(), detail: { reason: 'test' } },
        ),
      ),
  };
}

async function doubted(lease: Lease): Promise<Lease> {
  await inTransaction(db, (trx) => commitUnknown(trx, lease, 'cut', 0));
  return claim(db, lease.id, 'unknown');
}

async function adopt(lease: Lease, provider_id: string): Promise<void> {
  const unknown = await doubted(lease);
  await inTransaction(db, (trx) => commitAdopted(trx, unknown, { provider_id, expires_at: null }));
}

test.each(['submitting', 'unknown'] as const)(
  'a submission in %s takes the batch with its nonce, and its holder is fenced',
  async (state) => {
    const { lease, prove } = await sent();
    const held = state === 'unknown' ? await doubted(lease) : lease;
    expect(await prove('msgbatch_ours')).toBe('taken');
    expect(await row(lease.id)).toMatchObject({
      state: 'submitted',
      provider_id: 'msgbatch_ours',
      lease_epoch: held.epoch + 1,
      lease_owner: null,
    });
    expect(await readOpenDoubts(db)).toEqual([]);
    await expect(inTransaction(db, (trx) => commitWithdrawn(trx, held, newNonce()))).rejects.toMatchObject({
      code: 'fenced',
    });
    expect(await prove('msgbatch_ours')).toBe('known');
    expect(await orphans()).toEqual([]);
  },
);

test('a submission with a wrong adoption releases it and takes its own batch, which needs no further proof', async () => {
  const { lease, prove } = await sent();
  await adopt(lease, 'msgbatch_foreign');
  expect(await readOpenDoubts(db)).toMatchObject([{ stage: 'adopted' }]);
  expect(await prove('msgbatch_ours')).toBe('corrected');
  expect(await row(lease.id)).toMatchObject({
    state: 'submitted',
    provider_id: 'msgbatch_ours',
    not_ours: ['msgbatch_foreign'],
  });
  expect(await readOpenDoubts(db)).toEqual([]);
  expect(await prove('msgbatch_second')).toBe('orphan');
});

test('a submission that adopted its own batch is out of doubt', async () => {
  const { lease, prove } = await sent();
  await adopt(lease, 'msgbatch_ours');
  expect(await prove('msgbatch_ours')).toBe('known');
  expect(await readOpenDoubts(db)).toEqual([]);
});

test('a submission gets its batch back from another that adopted it, and the other searches again', async () => {
  const twin = await sent();
  const { lease, prove } = await sent();
  await adopt(twin.lease, 'msgbatch_ours');
  const remote = { provider_id: 'msgbatch_ours', expires_at: null };
  await expect(inTransaction(db, (trx) => commitSubmitted(trx, lease, remote, 0))).rejects.toMatchObject({
    code: 'fenced',
  });
  expect(await prove('msgbatch_ours')).toBe('taken');
  expect(await row(lease.id)).toMatchObject({ state: 'submitted', provider_id: 'msgbatch_ours' });
  expect(await row(twin.lease.id)).toMatchObject({
    state: 'unknown',
    provider_id: null,
    not_ours: ['msgbatch_ours'],
  });
});

test('a batch of a withdrawn submission is an orphan, booked once', async () => {
  const { lease, prove } = await sent();
  const unknown = await doubted(lease);
  await inTransaction(db, (trx) => commitWithdrawn(trx, unknown, newNonce()));
  expect(await prove('msgbatch_late')).toBe('orphan');
  expect(await prove('msgbatch_late')).toBe('known');
  expect(await orphans()).toEqual([{ provider_id: 'msgbatch_late' }]);
  expect(await row(lease.id)).toMatchObject({ state: 'building', provider_id: null });
});

test('an adopted batch proven by a line stays, and any other batch under its nonce is an orphan', async () => {
  const { lease, prove } = await sent();
  await adopt(lease, 'msgbatch_ours');
  await sql`update provider_batch set state = 'ended', ended_at = app_now() where id = ${lease.id}::uuid`.execute(
    db,
  );
  const ended = await claim(db, lease.id, 'ended');
  await ingest(db, ended, DONE);
  expect(await prove('msgbatch_second')).toBe('orphan');
  expect(await row(lease.id)).toMatchObject({ provider_id: 'msgbatch_ours', not_ours: [] });
});
