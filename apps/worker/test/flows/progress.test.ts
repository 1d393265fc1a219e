import type {} from '../../../../test/global-setup.ts';
import type { ToolDefinition } from '@nightshift/agent-core';
import {
  auditInvariants,
  changeCaps,
  claimCredential,
  DEFAULT_PROJECT_ID,
  inTransaction,
  pauseBatch,
  pauseCredential,
  readBatchProgress,
  resumeBatch,
} from '@nightshift/db';
import { progressOf, type Progress } from '@nightshift/agent-core';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { deliverWebhooks } from '../../src/flows/deliver-webhooks/deliver-webhooks.ts';
import { findDueFlows } from '../../src/flows/find-due-flows.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { EVENT_DAYS, sweep } from '../../src/flows/sweep/sweep.ts';
import type { CallbackPort, FlowDeps } from '../../src/flow-parts/deps.ts';
import { call, openHouse, script, type House, type SubmittedRun } from './house.ts';
import { openHouseApi } from './house-api.ts';

const ASK: ToolDefinition = {
  name: 'ask_user',
  kind: 'client',
  description: 'Asks the user.',
  input_schema: { type: 'object' },
  side_effects: 'none',
  return_char_limit: 100,
  timeout_ms: 1_000,
  requires_approval: false,
};
/** A run that asks its caller, and then answers. */
const ASKING: SubmittedRun = {
  input: script({ tool: 'ask_user', args: { question: 'Which?' } }, { text: 'Done.' }),
  client_tools: [ASK],
};
const WRITING: SubmittedRun = {
  input: call('core_memory_append', { label: 'notes', content: 'new' }),
  blocks: { notes: 'old' },
  tools: ['core_memory_append'],
};

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const progress = async (batchId: string): Promise<Progress> =>
  progressOf((await readBatchProgress(house.database.db, DEFAULT_PROJECT_ID, batchId)).facts);
const inTrx = <T>(work: Parameters<typeof inTransaction<T>>[1]): Promise<T> =>
  inTransaction(house.database.db, work);
/** Composes and submits one provider batch. */
const send = async (): Promise<void> => {
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
};
const answer = async (): Promise<void> => {
  await pollProviderBatches(worker);
  await ingestResults(worker);
};
/** Drives until runs wait for their caller. */
const driveToCaller = (): Promise<void> =>
  expect(house.drive(worker, { rounds: 12 })).rejects.toThrow('have not ended');

describe('each phase, by the flows that lead to it', () => {
  test('running, waiting for the provider, done', async () => {
    const { id } = await house.submit(Array.from({ length: 3 }, () => ({ input: 'hello' })));
    expect(await progress(id)).toMatchObject({
      phase: 'running',
      waiting_reason: null,
      ended: 0,
      total: 3,
      steps_at_provider: 0,
      oldest_step_sent_at: null,
      next_look_at: null,
    });
    await send();
    expect(await progress(id)).toMatchObject({
      phase: 'waiting_for_provider',
      waiting_reason: null,
      steps_at_provider: 3,
      oldest_step_sent_at: expect.any(Date) as Date,
      next_look_at: expect.any(Date) as Date,
    });
    await pollProviderBatches(worker);
    expect(await progress(id)).toMatchObject({ phase: 'running', steps_at_provider: 0, ended: 0 });
    await ingestResults(worker);
    // All runs have ended, but the batch has not.
    expect(await progress(id)).toMatchObject({ phase: 'running', ended: 3, percent: 99 });
    await sweep(worker);
    await finishBatch(worker);
    expect(await progress(id)).toMatchObject({ phase: 'done', ended: 3, percent: 100, eta: null });
  });

  test('steps that share a provider batch are counted for their own batch', async () => {
    const one = await house.submit(Array.from({ length: 3 }, () => ({ input: 'hello' })));
    const two = await house.submit([{ input: 'hello' }]);
    await send();
    expect((await progress(one.id)).steps_at_provider).toBe(3);
    expect((await progress(two.id)).steps_at_provider).toBe(1);
  });

  test('receiving', async () => {
    await house.submit([{ input: 'hello' }]);
    const api = await openHouseApi(house.database.db);
    const { body } = await api.call('POST', '/v1/batches', { agents: {}, input: 'Go.' });
    await api.close();
    const id = String(body.id).slice('job-'.length);
    expect(await progress(id)).toMatchObject({ phase: 'receiving', total: 1 });
    await house.drive(worker);
    expect(await progress(id)).toMatchObject({ phase: 'done', total: 1 });
  });

  test('paused by a person', async () => {
    const { id } = await house.submit([{ input: 'hello' }]);
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
    expect(await progress(id)).toMatchObject({
      phase: 'paused',
      waiting_reason: { cause: 'paused', message: 'lunch', until: null },
    });
    await inTrx((trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
    expect(await progress(id)).toMatchObject({ phase: 'running', waiting_reason: null });
  });

  test('paused at a cap', async () => {
    const cap = { cost_nanousd: null, output_tokens: 10 };
    const { id } = await house.submit([{ input: 'hello' }], { cap });
    await send();
    expect(await progress(id)).toMatchObject({
      phase: 'paused',
      waiting_reason: { cause: 'cap', message: expect.stringContaining('token') as string },
    });
    await inTrx((trx) => changeCaps(trx, DEFAULT_PROJECT_ID, id, { output_tokens: 100_000 }));
    expect(await progress(id)).toMatchObject({ phase: 'running' });
  });

  test('behind a paused credential, with its end, unless all steps are sent', async () => {
    const sent = await house.submit([{ input: 'hello' }]);
    await send();
    const unsent = await house.submit([{ input: 'hello' }]);
    await pauseCredential(house.database.db, 'default', 60_000, 'overloaded');
    await send();
    expect(await progress(sent.id)).toMatchObject({ phase: 'waiting_for_provider', waiting_reason: null });
    const { phase, waiting_reason } = await progress(unsent.id);
    expect({ phase, cause: waiting_reason?.cause }).toEqual({ phase: 'running', cause: 'credential' });
    expect(waiting_reason!.until!.getTime()).toBeGreaterThan(Date.now());
  });

  test('between the attempts of an outage, until a run goes on', async () => {
    house.simulator.control.addRule({
      id: 'outage',
      op: 'request',
      match: { contains: 'hello' },
      outcome: { type: 'errored', error_type: 'api_error', message: 'Internal error' },
    });
    const { id } = await house.submit([{ input: 'hello' }, { input: 'hello' }]);
    await send();
    expect(await progress(id)).toMatchObject({ phase: 'waiting_for_provider', waiting_reason: null });
    await answer();
    expect(await progress(id)).toMatchObject({
      phase: 'running',
      waiting_reason: { cause: 'retrying' },
      eta: null,
    });
    house.simulator.control.clearRules();
    await house.drive(worker, { hasten: true });
    expect(await progress(id)).toMatchObject({ phase: 'done', waiting_reason: null });
  });

  test('behind another batch', async () => {
    const first = await house.submit([{ input: 'hello' }]);
    const second = await house.submit([{ input: 'again', agent_id: first.agent_ids[0]! }]);
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, first.id, 'lunch'));
    expect(await progress(second.id)).toMatchObject({
      phase: 'running',
      waiting_reason: { cause: 'behind_another_batch' },
    });
  });

  test('without a worker', async () => {
    const { id } = await house.submit([{ input: 'hello' }]);
    await house.rows(`update run_chunk set next_due_at = app_now() - interval '59 s'`);
    expect((await progress(id)).waiting_reason).toBeNull();
    await house.rows(`update run_chunk set next_due_at = app_now() - interval '61 s'`);
    expect((await progress(id)).waiting_reason).toMatchObject({ cause: 'no_worker' });
    await claimCredential(house.database.db, 'default', worker.claimant);
    expect((await progress(id)).waiting_reason).toBeNull();
  });

  test('waiting for the caller, once all other runs have ended', async () => {
    const { id } = await house.submit([ASKING, { input: 'hello' }]);
    await send();
    expect((await progress(id)).phase).toBe('waiting_for_provider');
    await driveToCaller();
    expect(await progress(id)).toMatchObject({ phase: 'waiting_for_caller', ended: 1, total: 2 });
  });

  test('cancelling, then done', async () => {
    const { id } = await house.submit([{ input: 'hello' }]);
    await send();
    await house.cancel(id);
    expect(await progress(id)).toMatchObject({ phase: 'cancelling', steps_at_provider: 1 });
    await cancelBatch(worker);
    await answer();
    await house.drive(worker, { hasten: true });
    expect(await progress(id)).toMatchObject({ phase: 'done', percent: 100, steps_at_provider: 0 });
  });
});

test('each commit raises the version, and the chart sums to the counts', async () => {
  const { id } = await house.submit([WRITING, WRITING, { input: 'hello' }]);
  const versions: number[] = [];
  const watch = async (): Promise<void> => {
    versions.push((await readBatchProgress(house.database.db, DEFAULT_PROJECT_ID, id)).version);
  };
  await house.drive({
    ...worker,
    hooks: (point) => (point === 'ingest.after_commit' ? watch() : undefined),
  });
  await watch();
  expect(versions.length).toBeGreaterThan(2);
  expect(versions).toEqual([...new Set(versions)].toSorted((a, b) => a - b));
  const sums = `sum(input_tokens)::int as input, sum(output_tokens)::int as output, sum(cost_nanousd)::int as cost`;
  const [charted] = await house.rows(
    `select sum(ended)::int as ended, sum(failed)::int as failed, ${sums} from batch_minute where batch_id = $1`,
    [id],
  );
  const [counted] = await house.rows(
    `select sum(completed + failed + cancelled + expired)::int as ended, sum(failed + cancelled + expired)::int as failed, ${sums}
       from batch_tally where batch_id = $1`,
    [id],
  );
  expect(charted).toEqual(counted);
});

interface Posted {
  readonly id: string;
  readonly body: {
    readonly type?: string;
    readonly job_id: string;
    readonly state: string;
    readonly data?: object;
  };
}

/** A receiver of callbacks that answers with the given statuses in turn, then with 200. */
function receiver(...statuses: number[]): { readonly posted: Posted[]; readonly port: CallbackPort } {
  const posted: Posted[] = [];
  const post: CallbackPort['post'] = ({ id, body }) => {
    posted.push({ id, body: JSON.parse(body) as Posted['body'] });
    return Promise.resolve({ kind: 'answered', status: statuses[posted.length - 1] ?? 200 });
  };
  return { posted, port: { post } };
}

const CALLED_BACK = { callback_url: 'https://example.com/hook' } as const;
const makeEventsDue = () =>
  house.rows('update callback_event set next_due_at = app_now() where next_due_at is not null');

describe('the callback of a batch reports, if asked to,', () => {
  /** Delivers until nothing is due. */
  async function deliverAll(port: CallbackPort): Promise<void> {
    while ((await deliverWebhooks({ ...worker, callbacks: port })).worked);
  }

  test('that runs wait for the caller: once, until none waits any more', async () => {
    const { posted, port } = receiver();
    const batch = await house.submit([ASKING, ASKING], {
      ...CALLED_BACK,
      callback_events: ['requires_action'],
    });
    await driveToCaller();
    expect([...(await findDueFlows(worker))]).toContain('webhook');
    await deliverAll(port);
    expect(posted.map(({ body }) => body)).toEqual([
      expect.objectContaining({
        type: 'batch.requires_action',
        job_id: `job-${batch.id}`,
        state: 'running',
        metadata: null,
      }),
    ]);
    expect(
      await house.rows('select type, data from event where batch_id = $1 order by xid, id', [batch.id]),
    ).toEqual([
      { type: 'batch.running', data: { reason: null } },
      { type: 'batch.requires_action', data: { runs: expect.any(Number) as number } },
    ]);
    expect([...(await findDueFlows(worker))]).not.toContain('webhook');
  });

  test('its pause, and its end with held changes, each under an id of its own beside that of the end', async () => {
    const { posted, port } = receiver();
    const { id } = await house.submit([WRITING], {
      ...CALLED_BACK,
      callback_events: ['paused', 'review_ready'],
      apply: 'review',
    });
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
    await inTrx((trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
    await deliverAll(port);
    await house.drive(worker);
    await deliverAll(port);
    expect(posted.map(({ body }) => body.type ?? 'the end')).toEqual([
      'batch.paused',
      'the end',
      'batch.review_ready',
    ]);
    expect(posted[0]!.body.data).toEqual({ reason: 'lunch' });
    expect(posted[1]!.id).toBe(`job-${id}`);
    expect(new Set(posted.map((one) => one.id)).size).toBe(3);
  });

  test('nothing but its end by default, and nothing without a callback', async () => {
    const { posted, port } = receiver();
    const plain = await house.submit([WRITING], { ...CALLED_BACK, apply: 'review' });
    const silent = await house.submit([WRITING], { callback_events: ['paused'] });
    for (const { id } of [plain, silent]) {
      await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
      await inTrx((trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
    }
    await house.drive(worker);
    await deliverAll(port);
    expect(posted.map(({ id }) => id)).toEqual([`job-${plain.id}`]);
  });

  test('again under the same id when the worker was killed after the post, or the receiver failed', async () => {
    const { posted, port } = receiver(200, 500, 200);
    const { id } = await house.submit([{ input: 'hello' }], { ...CALLED_BACK, callback_events: ['paused'] });
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
    const killed = {
      ...worker,
      callbacks: port,
      hooks: (point: string) => {
        if (point === 'webhook.after_event') throw new Error('killed');
      },
    };
    await expect(deliverWebhooks(killed)).rejects.toThrow('killed');
    // Not before the claim of the killed worker ends.
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({ worked: false });
    await makeEventsDue();
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({
      delivered: false,
      status: 500,
    });
    await makeEventsDue();
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({ delivered: true });
    await makeEventsDue();
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({ worked: false });
    expect(posted).toHaveLength(3);
    expect(new Set(posted.map((one) => one.id)).size).toBe(1);
    const [row] = await house.rows(
      'select attempts, status_code, error, sent_at is not null as sent from callback_event',
    );
    expect(row).toEqual({ attempts: 2, status_code: 200, error: null, sent: true });
  });

  test('an event without holding up the end, whose delivery comes first', async () => {
    const { posted, port } = receiver(500, 500, 500);
    const { id } = await house.submit([{ input: 'hello' }], { ...CALLED_BACK, callback_events: ['paused'] });
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
    await deliverWebhooks({ ...worker, callbacks: port });
    await inTrx((trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
    await house.drive(worker);
    await makeEventsDue();
    await deliverAll(port);
    expect(posted.map(({ body }) => body.type ?? 'the end')).toEqual([
      'batch.paused',
      'the end',
      'batch.paused',
    ]);
  });

  test('no event of a batch that is gone', async () => {
    const { posted, port } = receiver();
    const { id } = await house.submit([{ input: 'hello' }], { ...CALLED_BACK, callback_events: ['paused'] });
    await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
    await house.rows('update event set batch_id = gen_random_uuid()');
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({
      error: 'the batch was deleted',
    });
    await makeEventsDue();
    expect(await deliverWebhooks({ ...worker, callbacks: port })).toMatchObject({ worked: false });
    expect(posted).toEqual([]);
  });
});

test('the sweep forgets old events with their callbacks, and those of a restored backup', async () => {
  const { id } = await house.submit([{ input: 'hello' }], { ...CALLED_BACK, callback_events: ['paused'] });
  await inTrx((trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'lunch'));
  await house.rows(
    `update event set created_at = app_now() - $1 * interval '1 day' where type = 'batch.paused'`,
    [EVENT_DAYS + 1],
  );
  await house.rows(
    `insert into event (xid, project_id, type, batch_id, data) values ('900000000000', $1, 'batch.paused', $2, '{}')`,
    [DEFAULT_PROJECT_ID, id],
  );
  expect([...(await findDueFlows(worker))]).toContain('sweep');
  await sweep(worker);
  expect(await house.rows('select type from event')).toEqual([{ type: 'batch.running' }]);
  expect(await house.rows('select 1 from callback_event')).toEqual([]);
});
