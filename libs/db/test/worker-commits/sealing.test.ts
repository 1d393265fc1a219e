import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  commitUnsealed,
  inTransaction,
  lockBlocksOfAgents,
  newId,
  pauseBatch,
  readBlocksAt,
  readOpenSteps,
  readStepsAtLimit,
  readUnsendableSteps,
  readReadyBacklog,
  readSealedRequests,
  relabelBlock,
  requestBatchCancel,
  resumeBatch,
  sealReadyRuns,
  writeBlock,
  DEFAULT_PROJECT_ID,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import {
  accept,
  acceptBareFleet,
  acceptFleet,
  answer,
  callsTools,
  claim,
  DONE,
  gate,
  ingest,
  newNonce,
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

async function stepsOf(providerBatchId: string) {
  return db
    .selectFrom('step')
    .selectAll()
    .where('provider_batch_id', '=', providerBatchId)
    .orderBy('ordinal')
    .execute();
}

async function statesOf(runIds: readonly string[]): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('run')
    .select('state')
    .where('id', 'in', [...runIds])
    .orderBy('ordinal')
    .execute();
  return rows.map((row) => row.state);
}

describe('sealing ready runs', () => {
  test('puts every run into the provider batch once, at dense ordinals, in run order', async () => {
    const fleet = await acceptFleet(db, 7);
    const { id, count } = await seal(db);
    expect(count).toBe(7);
    const steps = await stepsOf(id);
    expect(steps.map((step) => step.ordinal)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(steps.map((step) => step.run_id)).toEqual([...fleet.run_ids].sort());
    expect(steps[0]).toMatchObject({
      state: 'sealed',
      number: 1,
      attempt: 1,
      context_from_seq: 0,
      context_to_seq: 1,
      max_tokens: 8192,
    });
    expect(new Set(await statesOf(fleet.run_ids))).toEqual(new Set(['in_flight']));
    const row = await db
      .selectFrom('provider_batch')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ state: 'building', request_count: 7, lease_owner: null });
    expect(await seal(db)).toMatchObject({ count: 0 });
    expect(await db.selectFrom('provider_batch').select('id').execute()).toHaveLength(1);
    expect(await readReadyBacklog(db)).toEqual({ runs: 0, oldest_ms: 0, gathered: false, next_in_ms: null });
  });

  test('takes whole chunks, longest due first, up to the limit', async () => {
    const fleets = [];
    for (let n = 0; n < 4; n++) fleets.push(await acceptFleet(db, 3));
    await sql`update run_chunk set next_due_at = next_due_at - interval '1 hour' where ${fleets[2]!.run_ids[0]!}::uuid = any(run_ids)`.execute(
      db,
    );
    const { count } = await seal(db, 4);
    expect(count).toBe(6);
    expect(
      (await Promise.all(fleets.map(({ run_ids }) => statesOf(run_ids)))).map(([state]) => state),
    ).toEqual(['in_flight', 'ready', 'in_flight', 'ready']);
    expect((await readReadyBacklog(db)).runs).toBe(6);
    expect((await seal(db, 3)).count).toBe(3);
  });

  test('leaves chunks that are not due', async () => {
    await acceptFleet(db, 2);
    await sql`update run_chunk set next_due_at = app_now() + interval '1 minute'`.execute(db);
    expect((await seal(db)).count).toBe(0);
    const backlog = await readReadyBacklog(db);
    expect(backlog.runs).toBe(0);
    expect(backlog.next_in_ms).toBeGreaterThan(50_000);
  });

  test.each(['paused', 'cancelling'])('leaves out the runs of a %s batch', async (state) => {
    const [halted, running] = [await acceptFleet(db, 2), await acceptFleet(db, 3)];
    await sql`update batch set state = ${state}, state_reason = 'test', cancel_requested_at = app_now() where id = ${halted.id}::uuid`.execute(
      db,
    );
    const { id, count } = await seal(db);
    expect(count).toBe(3);
    expect((await stepsOf(id)).map((step) => step.run_id).sort()).toEqual([...running.run_ids].sort());
    expect(await statesOf(halted.run_ids)).toEqual(['ready', 'ready']);
  });

  test('leaves out runs past their deadline, which the sweep ends', async () => {
    const fleet = await acceptFleet(db, 3);
    const [late, , early] = fleet.run_ids;
    const at = (id: string | undefined, ms: number) =>
      sql`
        update run set deadline_at = t.at, overdue_from = t.at
          from (select app_now() + ${ms} * interval '1 millisecond' as at) t
         where id = ${id}::uuid`.execute(db);
    await at(late, 0);
    await at(early, 3_600_000);
    const { count } = await seal(db);
    expect(count).toBe(2);
    expect(await statesOf(fleet.run_ids)).toEqual(['ready', 'in_flight', 'in_flight']);
    expect(await db.selectFrom('step').select('run_id').where('run_id', '=', late!).execute()).toEqual([]);
  });

  test('and a cancel wait for each other: no step is sealed after the request', async () => {
    const fleet = await acceptFleet(db, 2);
    const [asked, committed] = [gate(), gate()];
    const cancel = inTransaction(db, async (trx) => {
      await requestBatchCancel(trx, DEFAULT_PROJECT_ID, fleet.id);
      asked.open();
      await committed.opened;
    });
    await asked.opened;
    const sealing = seal(db);
    await untilLockIsAwaited(db);
    committed.open();
    await cancel;
    expect((await sealing).count).toBe(0);
    expect(await statesOf(fleet.run_ids)).toEqual(['ready', 'ready']);
  });

  test('by several workers at once takes every run once', async () => {
    const fleets = [];
    for (let n = 0; n < 12; n++) fleets.push(await acceptFleet(db, 2));
    const sealed = await Promise.all(Array.from({ length: 6 }, () => seal(db, 4)));
    while ((await seal(db, 4)).count > 0);
    const steps = await db.selectFrom('step').select(['run_id', 'provider_batch_id']).execute();
    expect(steps).toHaveLength(24);
    expect(new Set(steps.map((step) => step.run_id)).size).toBe(24);
    expect(sealed.some(({ count }) => count > 0)).toBe(true);
    const counts = await sql<{ wrong: number }>`
      select count(*)::int as wrong from provider_batch p
       where request_count <> (select count(*) from step s where s.provider_batch_id = p.id)
          or request_count <> (select max(ordinal) + 1 from step s where s.provider_batch_id = p.id)`.execute(
      db,
    );
    expect(counts.rows[0]?.wrong).toBe(0);
  });

  test('by two workers does not wait: the second takes the unlocked chunks', async () => {
    for (let chunk = 0; chunk < 4; chunk++) await acceptFleet(db, 1);
    const held = gate();
    const sealed = gate();
    const sealSome = async (trx: Tx): Promise<number> => {
      const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
      return (await sealReadyRuns(trx, batch, 2)).requests;
    };
    const first = inTransaction(db, async (trx) => {
      const requests = await sealSome(trx);
      sealed.open();
      await held.opened;
      return requests;
    });
    await sealed.opened;
    const second = await inTransaction(db, sealSome).finally(held.open);
    expect([await first, second]).toEqual([2, 2]);
    expect(await db.selectFrom('run_chunk').select('id').execute()).toEqual([]);
  });

  test('of a run in two chunks seals it once', async () => {
    const fleet = await acceptFleet(db, 2);
    await sql`insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
      select gen_random_uuid(), project_id, kind, run_ids, next_due_at from run_chunk`.execute(db);
    expect((await seal(db)).count).toBe(2);
    expect(await statesOf(fleet.run_ids)).toEqual(['in_flight', 'in_flight']);
  });
});

describe('a sealed request', () => {
  test('is fixed: no later event changes a byte of it', async () => {
    const fleet = await acceptFleet(db, 3);
    const { id } = await seal(db);
    const before = await readSealedRequests(db, id, 0, 3);
    const refs = before.flatMap((request) =>
      (request.block_ids ?? []).map((block_id, index) => ({
        block_id,
        revision: request.block_revisions?.[index] ?? 0,
      })),
    );
    expect(before.map((request) => request.block_labels)).toEqual([['human'], ['human'], ['human']]);
    const blocks = await readBlocksAt(db, refs);
    expect([...blocks.values()].map((block) => block.value)).toEqual([
      'Name: unknown',
      'Name: unknown',
      'Name: unknown',
    ]);

    await inTransaction(db, async (trx) => {
      for (const block of await lockBlocksOfAgents(trx, fleet.agent_ids)) {
        const content = { ...block, metadata: {}, tags: [], is_template: false, hidden: false };
        await writeBlock(trx, block.block_id, 1, { ...content, value: 'Name: Ada' });
        const elsewhere = { ...content, label: 'person', value: '', description: 'other' };
        await relabelBlock(trx, block.block_id, 2, elsewhere);
      }
    });
    await sql`delete from agent_block where agent_id = ${fleet.agent_ids[0]!}::uuid`.execute(db);
    await sql`update agent set system = 'Other.', model = 'openai/gpt'`.execute(db);
    await sql`update conversation set context_from_seq = 1`.execute(db);
    await sql`insert into message (project_id, conversation_id, seq, role, content)
      select project_id, id, 2, 'user', '[{"type":"text","text":"later"}]' from conversation
       where id in (select conversation_id from run)`.execute(db);

    expect(await readSealedRequests(db, id, 0, 3)).toEqual(before);
    const relabelled = new Map([...blocks].map(([key, block]) => [key, { ...block, label: 'person' }]));
    expect(await readBlocksAt(db, refs)).toEqual(relabelled);
  });

  test('is read by ranges of ordinals', async () => {
    await acceptFleet(db, 5);
    const { id } = await seal(db);
    const all = await readSealedRequests(db, id, 0, 5);
    expect(all.map((request) => request.ordinal)).toEqual([0, 1, 2, 3, 4]);
    expect([
      ...(await readSealedRequests(db, id, 0, 2)),
      ...(await readSealedRequests(db, id, 2, 5)),
    ]).toEqual(all);
    expect(await readSealedRequests(db, id, 5, 10)).toEqual([]);
  });

  test('shows messages from the context start to the last message of the run', async () => {
    const fleet = await acceptFleet(db, 1);
    await ingest(db, await sealAndEnd(db), DONE);
    await sql`update conversation set context_from_seq = 2`.execute(db);
    await accept(db, [aRun(fleet.agent_ids[0]!, ['one', 'two'])]);
    const { id } = await seal(db);
    const [request] = await readSealedRequests(db, id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toEqual([
      { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
      { role: 'user', content: [{ type: 'text', text: 'one' }] },
      { role: 'user', content: [{ type: 'text', text: 'two' }] },
    ]);
  });

  test('leaves out hidden messages', async () => {
    const fleet = await acceptFleet(db, 1);
    const refusal = answer([{ type: 'text', text: 'No.' }], { stop_reason: 'refusal' });
    await ingest(db, await sealAndEnd(db), refusal);
    await accept(db, [aRun(fleet.agent_ids[0]!, ['again'])]);
    const { id } = await seal(db);
    const [request] = await readSealedRequests(db, id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'go' }] },
      { role: 'user', content: [{ type: 'text', text: 'again' }] },
    ]);
  });

  test('has twice the max_tokens after an answer cut off inside a call', async () => {
    await acceptFleet(db, 1);
    const cut = callsTools() as Extract<typeof DONE, { kind: 'answered' }>;
    await ingest(db, await sealAndEnd(db), { ...cut, answer: { ...cut.answer, stop_reason: 'max_tokens' } });
    const { id } = await seal(db);
    const [request] = await readSealedRequests(db, id, 0, 1);
    expect(request).toMatchObject({ number: 1, attempt: 2, max_tokens: 16_384 });
    expect(JSON.parse(request!.messages_json)).toHaveLength(1);
  });
});

test('the maximum output of a model is found by name, dated or not, alike for sealings and later checks', async () => {
  await acceptFleet(db, 1);
  await sql`update definition set model = 'anthropic/claude-x-20260101', model_settings = '{"max_output_tokens": 500}'`.execute(
    db,
  );
  const maxima = [
    { model: 'claude-x-20260101', output_tokens_max: 300 },
    { model: 'claude-x', output_tokens_max: 1_000 },
  ];
  const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
  await inTransaction(db, (trx) => sealReadyRuns(trx, batch, 10, maxima));
  const [key] = await readOpenSteps(db, batch.id, 1);
  expect(await readSealedRequests(db, batch.id, 0, 1)).toMatchObject([{ max_tokens: 300 }]);
  expect(await readStepsAtLimit(db, [key!], maxima)).toEqual(new Set([key!.run_id]));
  expect(await readStepsAtLimit(db, [key!], maxima.slice(1))).toEqual(new Set());
  // With other definitions left it would be found by its content.
  await sql`delete from definition`.execute(db);
});

describe('taking sealed steps back', () => {
  test('from an ordinal on keeps the others dense and makes the taken runs ready again', async () => {
    const fleet = await acceptFleet(db, 6);
    const { id } = await seal(db);
    const lease = await claim(db, id, 'building');
    expect(await inTransaction(db, (trx) => commitUnsealed(trx, lease, 4))).toBe(4);
    const steps = await stepsOf(id);
    expect(steps.map((step) => step.ordinal)).toEqual([0, 1, 2, 3]);
    const sorted = [...fleet.run_ids].sort();
    expect(steps.map((step) => step.run_id)).toEqual(sorted.slice(0, 4));
    expect((await readReadyBacklog(db)).runs).toBe(2);
    const again = await seal(db);
    expect(again.count).toBe(2);
    expect((await stepsOf(again.id)).map((step) => [step.run_id, step.number, step.attempt])).toEqual(
      sorted.slice(4).map((runId) => [runId, 1, 1]),
    );
  });

  test('of a batch that no longer runs leaves no gap and no chunk', async () => {
    const [halted, running] = [await acceptFleet(db, 3), await acceptFleet(db, 3)];
    const { id } = await seal(db);
    expect(await readUnsendableSteps(db, id)).toBe(false);
    await sql`update batch set state = 'paused', state_reason = 'test' where id = ${halted.id}::uuid`.execute(
      db,
    );
    expect(await readUnsendableSteps(db, id)).toBe(true);
    const lease = await claim(db, id, 'building');
    expect(await inTransaction(db, (trx) => commitUnsealed(trx, lease, 6))).toBe(3);
    const steps = await stepsOf(id);
    expect(steps.map((step) => [step.ordinal, step.run_id])).toEqual(
      [...running.run_ids].sort().map((runId, index) => [index, runId]),
    );
    expect(await statesOf(halted.run_ids)).toEqual(['ready', 'ready', 'ready']);
    expect((await readReadyBacklog(db)).runs).toBe(0);
    const row = await db
      .selectFrom('provider_batch')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ state: 'building', request_count: 3, lease_owner: 'alice' });
  });

  test('during a resume waits for it, and queues the runs', async () => {
    const fleet = await acceptFleet(db, 3);
    const { id } = await seal(db);
    await inTransaction(db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, fleet.id, 'test'));
    const lease = await claim(db, id, 'building');
    let unsealing: Promise<number> | undefined;
    await inTransaction(db, async (trx) => {
      expect(await resumeBatch(trx, DEFAULT_PROJECT_ID, fleet.id)).toBe(0);
      unsealing = inTransaction(db, (other) => commitUnsealed(other, lease, 0));
      await Promise.race([unsealing, untilLockIsAwaited(db)]);
    });
    expect(await unsealing).toBe(0);
    expect(await statesOf(fleet.run_ids)).toEqual(['ready', 'ready', 'ready']);
    expect((await readReadyBacklog(db)).runs).toBe(3);
    expect((await seal(db)).count).toBe(3);
  });

  test('of a paused batch ends before its resume, which queues the runs', async () => {
    const fleet = await acceptFleet(db, 3);
    const { id } = await seal(db);
    await inTransaction(db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, fleet.id, 'test'));
    const lease = await claim(db, id, 'building');
    let resuming: Promise<number> | undefined;
    await inTransaction(db, async (trx) => {
      expect(await commitUnsealed(trx, lease, 0)).toBe(0);
      resuming = inTransaction(db, (other) => resumeBatch(other, DEFAULT_PROJECT_ID, fleet.id));
      await Promise.race([resuming, untilLockIsAwaited(db)]);
    });
    expect(await resuming).toBe(3);
    expect((await seal(db)).count).toBe(3);
  });

  test('down to none rejects the provider batch and releases it', async () => {
    const fleet = await acceptFleet(db, 3);
    const { id } = await seal(db);
    await sql`update batch set state = 'paused', state_reason = 'test' where id = ${fleet.id}::uuid`.execute(
      db,
    );
    const lease = await claim(db, id, 'building');
    expect(await inTransaction(db, (trx) => commitUnsealed(trx, lease, 3))).toBe(0);
    const row = await db
      .selectFrom('provider_batch')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ state: 'rejected', request_count: 0, next_due_at: null, lease_owner: null });
  });

  // Storing so many agents takes seconds alone, and tens of seconds on a busy machine.
  test('works for very many runs', async () => {
    // With two parameters per run, no statement could take them.
    const COUNT = 33_000;
    await acceptBareFleet(db, COUNT);
    const { id, count } = await seal(db, COUNT);
    expect(count).toBe(COUNT);
    const lease = await claim(db, id, 'building');
    expect(await inTransaction(db, (trx) => commitUnsealed(trx, lease, 1))).toBe(1);
    expect((await readReadyBacklog(db)).runs).toBe(COUNT - 1);
    const again = await seal(db, COUNT);
    expect(again.count).toBe(COUNT - 1);
  });
});
