import type {} from '../../../../test/global-setup.ts';
import {
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  inTransaction,
  listSkippedAgents,
  newId,
  readBatch,
  readNow,
  type Database,
} from '@nightshift/db';
import { prepareBatch, storeBatch, type BatchRequest } from '@nightshift/intake';
import { storeBody } from '@nightshift/intake/testing';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps, HookPoint } from '../../src/flow-parts/deps.ts';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { call, openHouse, type House, type SubmittedRun } from './house.ts';

let house: House;
let db: Database;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  ({ db } = house.database);
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await house.close();
});

/** Creates agents with the tag `fleet`, each with one completed run, and returns their ids. */
async function createFleet(count: number, of: (index: number) => Partial<SubmittedRun> = () => ({})) {
  const runs = Array.from({ length: count }, (_, index) => ({
    input: 'Hello.',
    ...of(index),
    agent: { name: `agent ${index}`, tags: ['fleet'], ...of(index).agent },
  }));
  const { agent_ids } = await house.submit(runs);
  await house.drive(worker);
  return agent_ids;
}

const submit = (body: Partial<BatchRequest> & object): Promise<string> =>
  storeBody(db, { agents: { tags: ['fleet'] }, input: 'Hi {{ agent.name }}.', ...body });

const batchOf = (id: string) => readBatch(db, DEFAULT_PROJECT_ID, id);
const inputsOf = async (id: string) =>
  (
    await house.rows<{ text: string }>(
      `select m.content->0->>'text' as text from run r
         join message m on m.conversation_id = r.conversation_id and m.seq = r.first_seq
        where r.batch_id = $1 order by r.ordinal`,
      [id],
    )
  ).map(({ text }) => text);

/** A worker that dies at a hook. */
const dyingAt = (point: HookPoint, count = 1): FlowDeps => {
  let left = count;
  return house.worker({
    hooks: (at) => {
      if (at === point && --left === 0) throw new Error('the power went out');
    },
  });
};

describe('a fleet', () => {
  test('gets a run per selected agent, filled in for each, and runs to its end', async () => {
    await createFleet(3, (index) => ({ blocks: { plan: `plan ${index}` } }));
    const id = await submit({ input: '{{ agent.name }}: {{ blocks.plan }} after {{ last_run.state }}' });
    expect(await batchOf(id)).toMatchObject({ state: 'receiving', total: 3, accepted: 0 });
    await house.drive(worker);
    expect((await inputsOf(id)).sort()).toEqual(
      [0, 1, 2].map((n) => `agent ${n}: plan ${n} after completed`),
    );
    expect(await batchOf(id)).toMatchObject({ state: 'completed', total: 3, accepted: 3, completed: 3 });
  });

  test('is accepted in portions, of which none is sealed before the last', async () => {
    await createFleet(1_100);
    const id = await submit({});
    const seen: unknown[] = [];
    const watching = house.worker({
      hooks: async (point) => {
        if (point !== 'accept.after_commit') return;
        await composeProviderBatch(worker);
        const { state, total, accepted } = await batchOf(id);
        const [{ sealed } = { sealed: 0 }] = await house.rows<{ sealed: number }>(
          `select count(*)::int as sealed from run where batch_id = $1 and state <> 'ready'`,
          [id],
        );
        seen.push({ state, total, accepted, sealed });
      },
    });
    await acceptBatch(watching);
    expect(seen.slice(0, 3)).toEqual(
      [500, 1_000, 1_100].map((accepted) => ({ state: 'receiving', total: 1_100, accepted, sealed: 0 })),
    );
    const rows = await house.rows<{ id: string; ordinal: number; created_at: Date }>(
      'select id, ordinal, created_at from run where batch_id = $1 order by id',
      [id],
    );
    expect(rows.map(({ ordinal }) => ordinal)).toEqual(rows.map((_, place) => place));
    const { created_at } = await batchOf(id);
    expect(new Set(rows.map((row) => row.created_at.getTime()))).toEqual(new Set([created_at.getTime()]));
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 1_100 });
  });

  test.each([
    ['before the commit of its second portion', 'accept.before_commit', 500],
    ['after the commit of its second portion', 'accept.after_commit', 1_000],
  ] as const)('goes on behind the last portion when its worker dies %s', async (_name, point, accepted) => {
    await createFleet(1_100);
    const id = await submit({});
    const dying = dyingAt(point, 2);
    await expect(acceptBatch(dying)).rejects.toThrow('the power went out');
    await house.bury(dying);
    expect(await batchOf(id)).toMatchObject({ state: 'receiving', accepted });
    await house.hasten();
    await house.drive(worker);
    expect(new Set(await inputsOf(id)).size).toBe(1_100);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 1_100 });
  });

  test('has ascending run ids when the next portion is made by a slower clock', async () => {
    await createFleet(600);
    const id = await submit({});
    const dying = dyingAt('accept.after_commit', 1);
    await expect(acceptBatch(dying)).rejects.toThrow();
    await house.bury(dying);
    // As if the first portion's worker had a clock a year ahead.
    await house.rows(`update run set id = ('1' || substr(id::text, 2))::uuid where batch_id = $1`, [id]);
    await house.rows(
      `update conversation c set run_id = r.id from run r where r.conversation_id = c.id and r.batch_id = $1`,
      [id],
    );
    await house.rows(
      `update message m set run_id = r.id from run r where r.conversation_id = m.conversation_id and r.batch_id = $1`,
      [id],
    );
    await house.hasten();
    await house.drive(worker);
    const rows = await house.rows<{ ordinal: number }>(
      'select ordinal from run where batch_id = $1 order by id',
      [id],
    );
    expect(rows.map(({ ordinal }) => ordinal)).toEqual(rows.map((_, place) => place));
  });

  test('keeps the runs stored so far when it is cancelled meanwhile', async () => {
    await createFleet(1_100);
    const id = await submit({});
    const cancelling = house.worker({
      hooks: async (point) => {
        if (point === 'accept.after_commit' && (await batchOf(id)).accepted === 500) await house.cancel(id);
      },
    });
    expect(await acceptBatch(cancelling)).toMatchObject({ outcome: 'gone', runs: 500 });
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({
      state: 'cancelled',
      total: 500,
      accepted: 500,
      cancelled: 500,
    });
  });

  test('skips agents by reason: deleted since, without the block, with an unusable input', async () => {
    const agents = await createFleet(4, (index) => ({
      blocks: index === 1 ? {} : { plan: 'x' },
      agent: { metadata: index === 2 ? {} : { kind: 'a' } },
    }));
    const id = await submit({ input: '{{ blocks.plan }} {{ agent.metadata.kind }}' });
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agents[0] ?? ''));
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({
      ...{ state: 'completed', total: 1, completed: 1 },
      skipped: { agent_deleted: 1, missing_block: 1, unusable_input: 1 },
    });
    const all = { after: null, limit: 10, reason: null };
    expect(await listSkippedAgents(db, id, all)).toEqual(
      [
        { agent_id: agents[0], reason: 'agent_deleted' },
        { agent_id: agents[1], reason: 'missing_block' },
        { agent_id: agents[2], reason: 'unusable_input' },
      ].sort((one, other) => ((one.agent_id ?? '') < (other.agent_id ?? '') ? -1 : 1)),
    );
    expect(await listSkippedAgents(db, id, { ...all, reason: 'missing_block' })).toEqual([
      { agent_id: agents[1], reason: 'missing_block' },
    ]);
  });

  test('of a tick runs without the named agents that were deleted since, and counts them', async () => {
    const [first = '', second = ''] = await createFleet(2);
    const scheduleId = newId();
    await house.rows(
      `insert into schedule (id, project_id, name, cron, time_zone, body, state, tick_due_at, next_due_at)
       values ($1, $2, 's', '0 2 * * *', 'UTC', '{}', 'active', now() + interval '1 day', now() + interval '1 day')`,
      [scheduleId, DEFAULT_PROJECT_ID],
    );
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, first));
    const prepared = await prepareBatch({ agents: { ids: [first, second] }, input: 'Hi.' }, () => undefined);
    const now = await readNow(db);
    const settings = { now, prices: worker.settings.prices, idempotency: null };
    const submitting = (tick?: { readonly schedule_id: string; readonly due_at: Date }) =>
      inTransaction(db, (trx) =>
        storeBatch(trx, DEFAULT_PROJECT_ID, prepared, tick === undefined ? settings : { ...settings, tick }),
      );
    await expect(submitting()).rejects.toMatchObject({ code: 'not_found' });
    const { batch_id } = await submitting({ schedule_id: scheduleId, due_at: now });
    await house.rows(
      `insert into tick (schedule_id, due_at, project_id, outcome, batch_id) values ($1, $2, $3, 'started', $4)`,
      [scheduleId, now, DEFAULT_PROJECT_ID, batch_id],
    );
    await house.drive(worker);
    expect(await batchOf(batch_id)).toMatchObject({ completed: 1, skipped: { agent_deleted: 1 } });
  });

  test('an endless input is skipped, and the others run', async () => {
    await createFleet(3, (index) => ({ agent: { metadata: { rounds: index === 1 ? 100_000_000 : 1 } } }));
    const id = await submit({ input: 'x{% for i in (1..agent.metadata.rounds) %}{% endfor %}' });
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ completed: 2, skipped: { unusable_input: 1 } });
  });

  test('of which every agent is skipped completes at once', async () => {
    await createFleet(2, () => ({ blocks: { other: 'x' } }));
    await createFleet(1, () => ({ blocks: { plan: 'x' }, agent: { tags: [] } }));
    const id = await submit({ input: '{{ blocks.plan }}' });
    await acceptBatch(worker);
    await finishBatch(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', total: 0, skipped: { missing_block: 2 } });
  });

  test("takes turns in its agents' conversations where it asks for that", async () => {
    await createFleet(2);
    const first = await submit({ conversation: 'agent', input: 'one' });
    const second = await submit({ conversation: 'agent', input: 'two' });
    await acceptBatch(worker);
    await acceptBatch(worker);
    expect((await house.runsOf(first)).map(({ state }) => state)).toEqual(['ready', 'ready']);
    expect(await batchOf(second)).toMatchObject({ state: 'running', queued: 2 });
    await house.drive(worker);
    expect(await batchOf(second)).toMatchObject({ state: 'completed', completed: 2, queued: 0 });
  });

  test('a queued run that gets its conversation before its batch runs is sent once it runs', async () => {
    await createFleet(600);
    const [first] = await house.rows<{ id: string }>('select id from agent order by created_at, id limit 1');
    const earlier = await house.submit([{ input: 'first', agent_id: first?.id ?? '' }]);
    const id = await submit({ conversation: 'agent' });
    const dying = dyingAt('accept.after_commit', 1);
    await expect(acceptBatch(dying)).rejects.toThrow();
    await house.bury(dying);
    await house.cancel(earlier.id);
    for (let round = 0; round < 20; round++) {
      await cancelBatch(worker);
      await composeProviderBatch(worker);
    }
    expect((await house.runsOf(id))[0]).toMatchObject({ state: 'ready' });
    await house.hasten();
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 600 });
  });

  test('keeps its cap: what does not fit waits', async () => {
    await createFleet(3);
    const id = await submit({ max_output_tokens: 2_000 });
    await acceptBatch(worker);
    await composeProviderBatch(worker);
    expect((await house.runsOf(id)).map(({ state }) => state).sort()).toEqual([
      'in_flight',
      'ready',
      'ready',
    ]);
    await house.cancel(id);
    await house.drive(worker, { hasten: true });
  });

  test('with memory calls of a shared tool set has one definition', async () => {
    await createFleet(20, () => ({ blocks: { notes: 'x' }, tools: ['core_memory_append'] }));
    const id = await submit({ input: call('core_memory_append', { label: 'notes', content: 'y' }) });
    await house.drive(worker);
    const [row] = await house.rows<{ count: number }>(
      'select count(distinct definition_id)::int as count from run where batch_id = $1',
      [id],
    );
    expect(row?.count).toBe(1);
  });
});
