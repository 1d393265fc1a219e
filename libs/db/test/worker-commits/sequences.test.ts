import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  auditInvariants,
  claimDueBatches,
  commitOverdueRuns,
  commitRunsCancelled,
  commitWaitingRunsStarted,
  DEFAULT_PROJECT_ID,
  holdLease,
  inTransaction,
  markFinishedBatches,
  readSealedRequests,
  requestBatchCancel,
  type Database,
  type NewRun,
} from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch, aRun, createTestAgents } from '../factories.ts';
import {
  accept,
  ALICE,
  answer,
  clear,
  DONE,
  gate,
  ingest,
  later,
  leaseOf,
  sealAndEnd,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
});

const REFUSED = answer([{ type: 'text', text: 'No.' }], { stop_reason: 'refusal' });

async function partsOf(agentId: string, texts: readonly string[], rest: Partial<NewRun> = {}) {
  return texts.map((text): NewRun => ({
    ...aRun(agentId, [text]),
    isolated: true,
    sequence: agentId,
    ...rest,
  }));
}

async function acceptParts(texts: readonly string[], rest: Partial<NewRun> = {}) {
  const [agent] = await createTestAgents(db, 1);
  return accept(db, await partsOf(agent!.id, texts, rest));
}

const statesOf = async (batchId: string) => {
  const rows = await db
    .selectFrom('run')
    .selectAll()
    .where('batch_id', '=', batchId)
    .orderBy('ordinal')
    .execute();
  return rows.map((run) => [run.state, run.stop_reason]);
};
const countsOf = async (batchId: string) => {
  const { rows } = await sql<object>`
    select sum(queued)::int as queued, sum(completed)::int as completed, sum(failed)::int as failed,
           sum(cancelled)::int as cancelled from batch_tally where batch_id = ${batchId}`.execute(db);
  return rows[0];
};
const contextOf = async (providerBatchId: string) => {
  const [request] = await readSealedRequests(db, providerBatchId, 0, 1);
  return request!.messages_json;
};

describe('the runs of a sequence', () => {
  test('take turns in one isolated conversation, each in a context of its own', async () => {
    const batch = await acceptParts(['one', 'two', 'three']);
    expect(await statesOf(batch.id)).toEqual([
      ['ready', null],
      ['queued', null],
      ['queued', null],
    ]);
    expect(await countsOf(batch.id)).toMatchObject({ queued: 2 });
    for (const text of ['one', 'two', 'three']) {
      const lease = await sealAndEnd(db);
      expect(JSON.parse(await contextOf(lease.id))).toEqual([
        { role: 'user', content: [{ type: 'text', text }] },
      ]);
      await ingest(db, lease, DONE);
    }
    expect(await statesOf(batch.id)).toEqual(Array(3).fill(['completed', 'end_turn']));
    expect(await countsOf(batch.id)).toEqual({ queued: 0, completed: 3, failed: 0, cancelled: 0 });
    const { rows } = await sql`
      select distinct r.conversation_id = a.conversation_id as is_agents, c.run_id
        from run r join agent a on a.id = r.agent_id join conversation c on c.id = r.conversation_id`.execute(
      db,
    );
    expect(rows).toEqual([{ is_agents: false, run_id: null }]);
    expect(await markFinishedBatches(db, [batch.id])).toEqual([batch.id]);
  });

  test('are cancelled with one commit when the one before ends otherwise, and end their batch', async () => {
    const batch = await acceptParts(['one', 'two', 'three', 'four']);
    await ingest(db, await sealAndEnd(db), DONE);
    const report = await ingest(db, await sealAndEnd(db), REFUSED);
    expect(report).toMatchObject({ ready: false, ended_batch_ids: [batch.id], ended_runs: 1 });
    expect((await statesOf(batch.id)).map(([, reason]) => reason)).toEqual([
      'end_turn',
      'refusal',
      'cancelled',
      'cancelled',
    ]);
    expect(await countsOf(batch.id)).toEqual({ queued: 0, completed: 1, failed: 1, cancelled: 2 });
    expect(await db.selectFrom('queued_input').selectAll().execute()).toEqual([]);
    expect(await markFinishedBatches(db, [batch.id])).toEqual([batch.id]);
  });

  test('of several agents of a batch do not concern each other', async () => {
    const [one, two] = await createTestAgents(db, 2);
    const batch = await accept(db, [
      ...(await partsOf(one!.id, ['a', 'b'])),
      ...(await partsOf(two!.id, ['c', 'd'])),
      { ...aRun(two!.id), isolated: true },
    ]);
    const lease = await sealAndEnd(db);
    await ingest(db, lease, REFUSED, { run_ids: [batch.run_ids[0]!] });
    await ingest(db, lease, DONE, { run_ids: [batch.run_ids[2]!, batch.run_ids[4]!] });
    expect((await statesOf(batch.id)).map(([state]) => state)).toEqual([
      'failed',
      'cancelled',
      'completed',
      'ready',
      'completed',
    ]);
  });

  test('are cancelled when the one before passes its deadline', async () => {
    const [agent] = await createTestAgents(db, 1);
    const [first, second] = await partsOf(agent!.id, ['one', 'two']);
    const deadline = new Date(Date.now() + 60_000).toISOString();
    const batch = await accept(db, [{ ...first!, deadline }, second!]);
    const report = await later(db, 120_000, (trx) => commitOverdueRuns(trx, 100));
    expect(report).toMatchObject({ ended: 1, started: 0, ended_batch_ids: [batch.id] });
    expect(await statesOf(batch.id)).toEqual([
      ['failed', 'deadline'],
      ['cancelled', 'cancelled'],
    ]);
    expect(await countsOf(batch.id)).toMatchObject({ queued: 0, failed: 1, cancelled: 1 });
  });

  test('are all cancelled with their batch, each counted once', async () => {
    const batch = await acceptParts(['one', 'two', 'three']);
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batch.id));
    const [claimed] = await claimDueBatches(db, ['cancelling'], 1, ALICE);
    const lease = leaseOf('batch', claimed!);
    const page = await inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      return commitRunsCancelled(trx, lease, { from_ordinal: 0, limit: 1 }, 0);
    });
    expect(page).toEqual({ cancelled: 1, started: false, next_ordinal: 1 });
    await inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      return commitRunsCancelled(trx, lease, { from_ordinal: 1, limit: 10 }, 0);
    });
    expect(await statesOf(batch.id)).toEqual(Array(3).fill(['cancelled', 'cancelled']));
    expect(await countsOf(batch.id)).toMatchObject({ queued: 0, cancelled: 3 });
  });

  test.each([
    ['starts', DONE, 'ready'],
    ['cancels', REFUSED, 'cancelled'],
  ] as const)('never overtake a locked one: the sweep %s it later', async (_what, outcome, state) => {
    const batch = await acceptParts(['one', 'two', 'three']);
    const lease = await sealAndEnd(db);
    const [locked, over] = [gate(), gate()];
    const holding = inTransaction(db, async (trx) => {
      await sql`select 1 from run where id = ${batch.run_ids[1]} for update`.execute(trx);
      locked.open();
      await over.opened;
    });
    await locked.opened;
    await ingest(db, lease, outcome);
    expect((await statesOf(batch.id)).slice(1)).toEqual(Array(2).fill(['queued', null]));
    over.open();
    await holding;
    const report = await inTransaction(db, (trx) => commitWaitingRunsStarted(trx, 100));
    expect(report).toEqual(
      state === 'ready' ? { started: 1, ended_batch_ids: [] } : { started: 0, ended_batch_ids: [batch.id] },
    );
    expect((await statesOf(batch.id)).map(([now]) => now)).toEqual([
      state === 'ready' ? 'completed' : 'failed',
      state,
      state === 'ready' ? 'queued' : 'cancelled',
    ]);
  });

  test('must be isolated runs of one agent that stand side by side', async () => {
    const [one, two] = await createTestAgents(db, 2);
    const [part] = await partsOf(one!.id, ['a']);
    for (const runs of [
      [{ ...part!, isolated: false }],
      [part!, { ...part!, agent_id: two!.id }],
      [part!, aRun(two!.id), part!],
    ])
      await expect(
        inTransaction(db, (trx) => acceptBatch(trx, DEFAULT_PROJECT_ID, aBatch(runs))),
      ).rejects.toThrow('side by side');
  });
});
