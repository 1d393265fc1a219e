import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  claimDueBatches,
  commitBlocksReleased,
  commitRunsCancelled,
  commitWaitingRunsStarted,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  holdLease,
  inTransaction,
  lockConversations,
  readSealedRequests,
  requestBatchCancel,
  type Database,
} from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch, aRun, createTestAgents } from '../factories.ts';
import {
  accept,
  ALICE,
  DONE,
  gate,
  ingest,
  leaseOf,
  seal,
  sealAndEnd,
  untilLockIsAwaited,
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

async function oneAgent(): Promise<{ readonly id: string; readonly conversation_id: string }> {
  const [agent] = await createTestAgents(db, 1);
  return agent!;
}

async function run(id: string) {
  return db.selectFrom('run').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

async function holderOf(conversationId: string): Promise<string | null> {
  const row = await db
    .selectFrom('conversation')
    .select('run_id')
    .where('id', '=', conversationId)
    .executeTakeFirstOrThrow();
  return row.run_id;
}

/** Requests a cancel and does the first part of the cancel flow: ends runs that wait inside. */
async function cancelWaiting(batchId: string, limit = 1_000): Promise<number> {
  await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batchId));
  const claimed = await claimDueBatches(db, ['cancelling'], 10, ALICE);
  const lease = leaseOf(
    'batch',
    claimed.find((row) => row.id === batchId)!,
  );
  const report = await inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    return commitRunsCancelled(trx, lease, { from_ordinal: 0, limit }, 0);
  });
  return report.cancelled;
}

describe('the runs of one conversation', () => {
  test('take turns in accept order, and each reads the earlier messages', async () => {
    const agent = await oneAgent();
    const batches = [];
    for (const text of ['one', 'two', 'three', 'four'])
      batches.push(await accept(db, [aRun(agent.id, [text, `${text}!`])]));
    const order: string[] = [];
    for (const { run_ids } of batches) {
      expect(await holderOf(agent.conversation_id)).toBe(run_ids[0]);
      const lease = await sealAndEnd(db);
      const [step] = await db
        .selectFrom('step')
        .select('run_id')
        .where('provider_batch_id', '=', lease.id)
        .execute();
      order.push(step!.run_id);
      const [request] = await readSealedRequests(db, lease.id, 0, 1);
      expect(JSON.parse(request!.messages_json)).toHaveLength((order.length - 1) * 3 + 2);
      await ingest(db, lease, DONE);
    }
    expect(order).toEqual(batches.map((batch) => batch.run_ids[0]));
    expect(await holderOf(agent.conversation_id)).toBeNull();
    const messages = await db.selectFrom('message').select(['seq', 'run_id']).orderBy('seq').execute();
    expect(messages.map((message) => message.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    expect(messages.map((message) => message.run_id)).toEqual(order.flatMap((id) => [id, id, id]));
    const spans = await db
      .selectFrom('run')
      .select(['first_seq', 'last_seq'])
      .orderBy('created_at')
      .execute();
    expect(spans.map((span) => [span.first_seq, span.last_seq])).toEqual([
      [1, 3],
      [4, 6],
      [7, 9],
      [10, 12],
    ]);
    expect(await db.selectFrom('queued_input').selectAll().execute()).toEqual([]);
  });

  test('of a batch wait in request order, and start with their input verbatim', async () => {
    const agent = await oneAgent();
    const text = 'a\u0000b\ud800';
    const message = { role: 'user' as const, content: [{ type: 'text', text }], otid: 'otid-1', name: 'Ada' };
    const batch = await accept(db, [
      aRun(agent.id),
      { ...aRun(agent.id), messages: [message, { ...message, role: 'system' }] },
      aRun(agent.id),
    ]);
    const report = await ingest(db, await sealAndEnd(db), DONE);
    expect(report).toMatchObject({ ready: true, ended_runs: 1 });
    expect(await run(batch.run_ids[1]!)).toMatchObject({
      state: 'ready',
      first_seq: 3,
      last_seq: 4,
      step_number: 1,
    });
    expect(await run(batch.run_ids[2]!)).toMatchObject({ state: 'queued', started_at: null });
    const moved = await db
      .selectFrom('message')
      .selectAll()
      .where('run_id', '=', batch.run_ids[1]!)
      .orderBy('seq')
      .execute();
    expect(moved.map((row) => [row.seq, row.role, row.otid, row.name])).toEqual([
      [3, 'user', 'otid-1', 'Ada'],
      [4, 'system', 'otid-1', 'Ada'],
    ]);
    const chunks = await db.selectFrom('run_chunk').select(['kind', 'run_ids']).execute();
    expect(chunks).toEqual([{ kind: 'ready', run_ids: [batch.run_ids[1]] }]);
    const { id } = await seal(db);
    const [request] = await readSealedRequests(db, id, 0, 1);
    expect(request!.messages_json).toContain(JSON.stringify([{ type: 'text', text }]));
  });

  test('continue after a failed run', async () => {
    const agent = await oneAgent();
    const batch = await accept(db, [aRun(agent.id), aRun(agent.id)]);
    const lease = await sealAndEnd(db);
    await ingest(db, lease, {
      kind: 'errored',
      error_class: 'permanent',
      error_type: 'invalid_request_error',
      message: 'no',
    });
    expect((await run(batch.run_ids[0]!)).state).toBe('failed');
    expect((await run(batch.run_ids[1]!)).state).toBe('ready');
  });

  test('also start without input', async () => {
    const agent = await oneAgent();
    const batch = await accept(db, [aRun(agent.id), aRun(agent.id, []), aRun(agent.id)]);
    await ingest(db, await sealAndEnd(db), DONE);
    expect(await run(batch.run_ids[1]!)).toMatchObject({ state: 'ready', first_seq: 3, last_seq: 2 });
    await ingest(db, await sealAndEnd(db), DONE);
    expect(await run(batch.run_ids[2]!)).toMatchObject({ state: 'ready', first_seq: 4 });
    expect(await db.selectFrom('queued_input').select('run_id').execute()).toEqual([]);
  });

  test.each([
    ['the runs of its conversation', false],
    ['isolated runs', true],
  ])('of an agent deleted while an accept waits are not accepted: %s', async (_name, isolated) => {
    const agent = await oneAgent();
    const [deleted, committed] = [gate(), gate()];
    const deleting = inTransaction(db, async (trx) => {
      await deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id);
      deleted.open();
      await committed.opened;
    });
    await deleted.opened;
    const accepting = accept(db, [{ ...aRun(agent.id), isolated }]);
    const refused = expect(accepting).rejects.toThrow('does not exist or was changed');
    await untilLockIsAwaited(db);
    committed.open();
    await deleting;
    await refused;
    expect(await db.selectFrom('run').select('id').execute()).toEqual([]);
  });

  test.each([
    ['the runs of its conversation', false],
    ['isolated runs', true],
  ])('keep the blocks of an agent deleted during their accept: %s', async (_name, isolated) => {
    const agent = await oneAgent();
    const [stored, committed] = [gate(), gate()];
    const accepting = inTransaction(db, async (trx) => {
      await acceptBatch(trx, DEFAULT_PROJECT_ID, aBatch([{ ...aRun(agent.id), isolated }]));
      stored.open();
      await committed.opened;
    });
    await stored.opened;
    const deleting = inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id));
    await untilLockIsAwaited(db);
    committed.open();
    await Promise.all([accepting, deleting]);
    const keepsBlocks = async () =>
      (await db.selectFrom('agent').select('keeps_blocks').where('id', '=', agent.id).execute())[0]
        ?.keeps_blocks;
    const release = () => inTransaction(db, (trx) => commitBlocksReleased(trx, 10));
    await release();
    expect(await keepsBlocks()).toBe(true);
    await ingest(db, await sealAndEnd(db), DONE);
    await release();
    expect(await keepsBlocks()).toBe(false);
  });

  test('of deleted agents do not block the release of blocks without open runs', async () => {
    const agents = [await oneAgent(), await oneAgent(), await oneAgent()];
    const [, , last = ''] = agents.map((agent) => agent.id).sort();
    const { run_ids } = await accept(
      db,
      agents.map((agent) => aRun(agent.id)),
    );
    for (const agent of agents)
      await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id));
    const ended = run_ids[agents.findIndex((agent) => agent.id === last)]!;
    await ingest(db, await sealAndEnd(db), DONE, { run_ids: [ended] });
    await inTransaction(db, (trx) => commitBlocksReleased(trx, 1));
    const ids = agents.map((agent) => agent.id);
    const rows = await db
      .selectFrom('agent')
      .select('id')
      .where('id', 'in', ids)
      .where('keeps_blocks', '=', false)
      .execute();
    expect(rows).toEqual([{ id: last }]);
  });

  test('accepted while the previous run ends start at once', async () => {
    const agent = await oneAgent();
    await accept(db, [aRun(agent.id)]);
    const lease = await sealAndEnd(db);
    const [stored, committed] = [gate(), gate()];
    const late = aBatch([aRun(agent.id)]);
    const accepting = inTransaction(db, async (trx) => {
      const accepted = await acceptBatch(trx, DEFAULT_PROJECT_ID, late);
      stored.open();
      await committed.opened;
      return accepted;
    });
    await stored.opened;
    const ending = ingest(db, lease, DONE);
    await untilLockIsAwaited(db);
    committed.open();
    const { run_ids } = await accepting;
    expect(await ending).toMatchObject({ ready: true });
    expect(await run(run_ids[0]!)).toMatchObject({ state: 'ready', first_seq: 3 });
    expect(await holderOf(agent.conversation_id)).toBe(run_ids[0]);
  });
});

describe('the sweep', () => {
  /** A free conversation with two waiting runs, as after a hand-over that skipped a locked run. */
  async function forgotten(): Promise<{
    readonly conversation_id: string;
    readonly run_ids: readonly string[];
  }> {
    const agent = await oneAgent();
    await accept(db, [aRun(agent.id)]);
    const { run_ids } = await accept(db, [aRun(agent.id), aRun(agent.id)]);
    const lease = await sealAndEnd(db);
    await sql`update run set started_at = app_now(), first_seq = 9, last_seq = 9, state = 'ready' where state = 'queued'`.execute(
      db,
    );
    await ingest(db, lease, DONE);
    await sql`update run set started_at = null, first_seq = null, last_seq = null, state = 'queued' where state = 'ready'`.execute(
      db,
    );
    expect(await holderOf(agent.conversation_id)).toBeNull();
    return { conversation_id: agent.conversation_id, run_ids };
  }

  const sweep = (limit = 100) => inTransaction(db, (trx) => commitWaitingRunsStarted(trx, limit));

  test('starts the first run that waits for a free conversation', async () => {
    const { conversation_id, run_ids } = await forgotten();
    expect((await sweep()).started).toBe(1);
    expect(await holderOf(conversation_id)).toBe(run_ids[0]);
    expect((await sweep()).started).toBe(0);
    expect((await run(run_ids[1]!)).state).toBe('queued');
  });

  test('starts no second run in a conversation taken during its wait', async () => {
    const { conversation_id, run_ids } = await forgotten();
    const [locked, written] = [gate(), gate()];
    const first = inTransaction(db, async (trx) => {
      await lockConversations(trx, [conversation_id]);
      locked.open();
      await written.opened;
      return commitWaitingRunsStarted(trx, 100);
    });
    await locked.opened;
    const second = sweep();
    await untilLockIsAwaited(db);
    written.open();
    expect((await first).started).toBe(1);
    expect((await second).started).toBe(0);
    expect(await holderOf(conversation_id)).toBe(run_ids[0]);
    expect((await run(run_ids[1]!)).state).toBe('queued');
  });

  test('started several times at once starts each conversation once', async () => {
    const waiting = [];
    for (let n = 0; n < 5; n++) waiting.push(await forgotten());
    const started = await Promise.all(Array.from({ length: 6 }, () => sweep()));
    expect(started.reduce((sum, report) => sum + report.started, 0)).toBe(5);
    for (const { conversation_id, run_ids } of waiting)
      expect(await holderOf(conversation_id)).toBe(run_ids[0]);
  });

  test('starts at most the given number of runs', async () => {
    for (let n = 0; n < 3; n++) await forgotten();
    expect((await sweep(2)).started).toBe(2);
    expect((await sweep(2)).started).toBe(1);
  });
});

describe('cancelling', () => {
  test('hands the conversations of ready runs to the next batches', async () => {
    const agent = await oneAgent();
    const cancelled = await accept(db, [aRun(agent.id), aRun(agent.id)]);
    const next = await accept(db, [aRun(agent.id, ['next'])]);
    expect(await cancelWaiting(cancelled.id)).toBe(2);
    expect(
      (await Promise.all(cancelled.run_ids.map(run))).map((row) => [row.state, row.stop_reason]),
    ).toEqual([
      ['cancelled', 'cancelled'],
      ['cancelled', 'cancelled'],
    ]);
    expect(await run(next.run_ids[0]!)).toMatchObject({ state: 'ready', first_seq: 2 });
    expect(await db.selectFrom('queued_input').selectAll().execute()).toEqual([]);
    const { rows: tallies } = await sql`
      select batch_id, sum(cancelled)::int as cancelled, sum(queued)::int as queued from batch_tally
       group by batch_id order by batch_id`.execute(db);
    expect(tallies).toEqual([
      { batch_id: cancelled.id, cancelled: 2, queued: 0 },
      { batch_id: next.id, cancelled: 0, queued: 0 },
    ]);
    // The chunk still names the cancelled run; seals skip it.
    const { id, count } = await seal(db);
    expect(count).toBe(1);
    const steps = await db.selectFrom('step').select('run_id').where('provider_batch_id', '=', id).execute();
    expect(steps).toEqual([{ run_id: next.run_ids[0] }]);
  });

  test('leaves runs at the provider alone, and reports whether more runs wait', async () => {
    const agents = await createTestAgents(db, 4);
    const batch = await accept(
      db,
      agents.map((agent) => aRun(agent.id)),
    );
    await seal(db);
    const [more] = await createTestAgents(db, 1);
    await accept(db, [aRun(more!.id)]);
    expect(await cancelWaiting(batch.id)).toBe(0);
    expect((await Promise.all(batch.run_ids.map(run))).every((row) => row.state === 'in_flight')).toBe(true);
    const other = await accept(
      db,
      (await createTestAgents(db, 3)).map((agent) => aRun(agent.id)),
    );
    expect(await cancelWaiting(other.id, 2)).toBe(2);
  });

  test('appends no input to a conversation of a cancelled run', async () => {
    const agent = await oneAgent();
    await accept(db, [aRun(agent.id, ['first'])]);
    const cancelled = await accept(db, [aRun(agent.id, ['never'])]);
    const next = await accept(db, [aRun(agent.id, ['next'])]);
    const lease = await sealAndEnd(db);
    // Requested, but not carried out, when the holder ends.
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, cancelled.id));
    await ingest(db, lease, DONE);
    expect((await run(cancelled.run_ids[0]!)).state).toBe('queued');
    expect(await run(next.run_ids[0]!)).toMatchObject({ state: 'ready', first_seq: 3, last_seq: 3 });
    expect(await cancelWaiting(cancelled.id)).toBe(1);
    expect(await holderOf(agent.conversation_id)).toBe(next.run_ids[0]);
  });
});
