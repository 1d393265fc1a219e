import type {} from '../../../../test/global-setup.ts';
import type { ToolDefinition } from '@nightshift/agent-core';
import {
  auditInvariants,
  inTransaction,
  requestRunCancels,
  DEFAULT_PROJECT_ID,
  type Database,
} from '@nightshift/db';
import { storeBody } from '@nightshift/intake/testing';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { answering, openHouse, script, type House, type SubmittedBatch } from './house.ts';
import { openHouseApi, type ApiAnswer, type HouseApi } from './house-api.ts';

let house: House;
let db: Database;
let server: HouseApi;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'act',
        description: 'Does something in the world.',
        input_schema: { type: 'object' },
        side_effects: 'once',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ],
  });
  ({ db } = house.database);
  server = await openHouseApi(house.database.db);
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await server.close();
  await house.close();
});

const api: HouseApi['call'] = (...request) => server.call(...request);
const cancelRun = ({ run_ids }: SubmittedBatch, index = 0): Promise<ApiAnswer> =>
  api('POST', `/v1/runs/run-${run_ids[index] ?? ''}/cancel`);
const statesOf = async ({ id }: SubmittedBatch): Promise<string[]> =>
  (
    await house.rows<{ state: string }>('select state from run where batch_id = $1 order by ordinal', [id])
  ).map(({ state }) => state);
const bills = () => house.rows('select coalesce(sum(output_tokens), 0)::int as tokens from step');

async function pollUntilEnded(worker: FlowDeps): Promise<void> {
  do await pollProviderBatches(worker);
  while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
}
async function ingestAll(worker: FlowDeps): Promise<void> {
  await pollUntilEnded(worker);
  while ((await ingestResults(worker)).worked);
}

const CALLS_ACT = script({ tool: 'act' }, { text: 'Done.' });
const ASK: ToolDefinition = {
  name: 'ask_user',
  kind: 'client',
  description: 'Asks the user.',
  input_schema: { type: 'object' },
  side_effects: 'none',
  return_char_limit: 20,
  timeout_ms: 1_000,
  requires_approval: false,
};

describe('a run that is cancelled alone', () => {
  test('ends at once while it is ready, and the others go on', async () => {
    const batch = await house.submit([{ input: 'one' }, { input: 'two' }]);
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'cancelled', stop_reason: 'cancelled' });
    await house.drive(house.worker());
    expect(await statesOf(batch)).toEqual(['cancelled', 'completed']);
    const { body } = await api('GET', `/v1/batches/job-${batch.id}`);
    expect(body).toMatchObject({ state: 'completed', counts: { cancelled: 1, completed: 1 } });
    expect(await house.rows(`select 1 from step where run_id = $1`, [batch.run_ids[0]])).toEqual([]);
  });

  test('ends at once while it is queued, and passes its turn on', async () => {
    const batch = await house.submit([
      { input: 'one' },
      { input: 'two', same_agent_as: 0 },
      { input: 'three', same_agent_as: 0 },
    ]);
    expect(await statesOf(batch)).toEqual(['ready', 'queued', 'queued']);
    expect((await cancelRun(batch, 1)).body).toMatchObject({ state: 'cancelled' });
    // The holder is cancelled too: the third starts.
    await cancelRun(batch, 0);
    expect(await statesOf(batch)).toEqual(['cancelled', 'cancelled', 'ready']);
    await house.drive(house.worker());
    expect(await statesOf(batch)).toEqual(['cancelled', 'cancelled', 'completed']);
  });

  test('is taken back while its step is sealed and not sent', async () => {
    const worker = house.worker();
    const batch = await house.submit([{ input: 'one' }, { input: 'two' }]);
    await composeProviderBatch(worker);
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'in_flight' });
    await submitProviderBatch(worker);
    await house.drive(worker);
    expect(await statesOf(batch)).toEqual(['cancelled', 'completed']);
    expect(await house.rows(`select 1 from step where run_id = $1`, [batch.run_ids[0]])).toEqual([]);
  });

  test('ends with its paid answer while its request is at the provider', async () => {
    const worker = house.worker({ tools: answering() });
    const batch = await house.submit([{ input: CALLS_ACT, tools: ['act'] }, { input: 'two' }]);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'in_flight' });
    expect((await cancelRun(batch)).status).toBe(200);
    await house.drive(worker);
    expect(await statesOf(batch)).toEqual(['cancelled', 'completed']);
    const [step] = await house.rows(`select state, output_tokens > 0 as paid from step where run_id = $1`, [
      batch.run_ids[0],
    ]);
    expect(step).toEqual({ state: 'done', paid: true });
  });

  test('ends when the results of its tool calls arrive; calls that have not begun are not made', async () => {
    const tools = answering();
    const worker = house.worker({ tools });
    const batch = await house.submit([{ input: CALLS_ACT, tools: ['act'] }]);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await ingestAll(worker);
    expect(await statesOf(batch)).toEqual(['acting']);
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'acting' });
    await runToolCalls(worker);
    expect(await statesOf(batch)).toEqual(['cancelled']);
    expect(tools.asked).toEqual([]);
    await house.drive(worker);
  });

  test('ends without the answer of its caller while it waits for it', async () => {
    const worker = house.worker();
    const batch = await house.submit([
      { input: script({ tool: 'ask_user' }, { text: 'Done.' }), client_tools: [ASK] },
    ]);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await ingestAll(worker);
    expect(await statesOf(batch)).toEqual(['requires_action']);
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'acting' });
    await house.drive(worker);
    expect(await statesOf(batch)).toEqual(['cancelled']);
    expect((await api('GET', `/v1/batches/job-${batch.id}`)).body.counts).toMatchObject({
      requires_action: 0,
      cancelled: 1,
    });
  });

  test('does not change once it has ended', async () => {
    const batch = await house.submit([{ input: 'one' }]);
    await house.drive(house.worker());
    const before = await house.rows('select * from run');
    expect((await cancelRun(batch)).body).toMatchObject({ state: 'completed' });
    expect(await house.rows('select * from run')).toEqual(before);
    expect((await api('POST', '/v1/runs/run-01890000-0000-7000-8000-000000000000/cancel')).status).toBe(404);
  });

  test('while its answer is being applied ends after it, whatever was decided before the request', async () => {
    const batch = await house.submit([{ input: CALLS_ACT, tools: ['act'] }]);
    let asked = false;
    const worker = house.worker({
      tools: answering(),
      hooks: async (name) => {
        if (asked || name !== 'ingest.before_commit') return;
        asked = true;
        // The commit holds the run only once it writes; the request comes from another connection.
        await Promise.race([cancelRun(batch), new Promise((resolve) => setImmediate(resolve))]);
      },
    });
    await house.drive(worker);
    expect(await statesOf(batch)).toEqual(['cancelled']);
  });

  test('is ended by the sweep when the API dies after the request', async () => {
    const batch = await house.submit([{ input: 'one' }, { input: 'two' }]);
    await inTransaction(db, (trx) =>
      requestRunCancels(trx, DEFAULT_PROJECT_ID, batch.id, { run_ids: [batch.run_ids[0] ?? ''] }),
    );
    expect(await statesOf(batch)).toEqual(['ready', 'ready']);
    const worker = house.worker();
    // Never sealed, although its chunk is due.
    expect(await composeProviderBatch(worker)).toMatchObject({ worked: true });
    expect(await statesOf(batch)).toEqual(['ready', 'in_flight']);
    await sweep(worker);
    expect(await statesOf(batch)).toEqual(['cancelled', 'in_flight']);
    await house.drive(worker);
  });
});

describe('a cancel of some runs of a batch', () => {
  test('by ids ends these alone', async () => {
    const batch = await house.submit(Array.from({ length: 5 }, (_, n) => ({ input: `run ${n}` })));
    const run_ids = [0, 2, 4].map((n) => `run-${batch.run_ids[n] ?? ''}`);
    const { status, body } = await api('POST', `/v1/batches/job-${batch.id}/cancel`, { run_ids });
    expect(status).toBe(200);
    expect(body).toMatchObject({ state: 'running', counts: { cancelled: 3 } });
    await house.drive(house.worker());
    expect(await statesOf(batch)).toEqual(['cancelled', 'completed', 'cancelled', 'completed', 'cancelled']);
  });

  test('by error group ends the open runs that failed like it, and leaves the ended ones', async () => {
    const worker = house.worker({
      settings: {
        retry: {
          attempts_max: 4,
          retry_delay_ms: 3_600_000,
          retry_delay_ms_max: 3_600_000,
          outage_delay_ms: 3_600_000,
          outage_ms_max: 7_200_000,
        },
      },
    });
    for (const [contains, message] of [
      ['wide', 'Worker 17 failed'],
      ['deep', 'Disk full'],
    ] as const)
      house.simulator.control.addRule({
        id: contains,
        op: 'request',
        match: { contains },
        outcome: { type: 'errored', error_type: 'api_error', message },
      });
    const batch = await house.submit(['wide 1', 'wide 2', 'deep', 'fine'].map((input) => ({ input })));
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await ingestAll(worker);
    expect(await statesOf(batch)).toEqual(['ready', 'ready', 'ready', 'completed']);
    const { body: errors } = await api('GET', `/v1/batches/job-${batch.id}/errors`);
    expect(errors).toMatchObject({ runs: 0, groups_total: 2 });
    expect(errors.groups[0]).toMatchObject({
      runs: 0,
      retrying: 2,
      stop_reason: 'provider_error',
      first_failed_at: null,
    });
    expect(errors.groups[0].samples).toHaveLength(2);
    const { error_group } = errors.groups[0];
    expect((await api('POST', `/v1/batches/job-${batch.id}/cancel`, { error_group })).status).toBe(200);
    expect(await statesOf(batch)).toEqual(['cancelled', 'cancelled', 'ready', 'completed']);
    house.simulator.control.clearRules();
    await house.drive(worker, { hasten: true });
    expect(await statesOf(batch)).toEqual(['cancelled', 'cancelled', 'completed', 'completed']);
    const again = await api('POST', `/v1/batches/job-${batch.id}/cancel`, { error_group });
    expect(again.status).toBe(422);
    expect(again.body.detail).toContain(
      '/error_group names no group with open runs of this batch, which is completed',
    );
  });

  test('of runs of another batch, of none or by two fields is a 422 that changes nothing', async () => {
    const batch = await house.submit([{ input: 'one' }]);
    const other = await house.submit([{ input: 'two' }]);
    const url = `/v1/batches/job-${batch.id}/cancel`;
    const foreign = await api('POST', url, {
      run_ids: [batch.run_ids[0], other.run_ids[0]].map((id) => `run-${id ?? ''}`),
    });
    expect(foreign).toMatchObject({ status: 422, body: { errors: [{ path: '/run_ids/1' }] } });
    expect((await api('POST', url, { run_ids: [] })).status).toBe(422);
    expect(
      (await api('POST', url, { run_ids: [`run-${batch.run_ids[0] ?? ''}`], error_group: '0'.repeat(32) }))
        .status,
    ).toBe(422);
    expect(await house.rows('select 1 from run where cancel_requested_at is not null')).toEqual([]);
    // Without a body, the whole batch.
    expect((await api('POST', url)).body).toMatchObject({ state: 'cancelling' });
    await house.drive(house.worker());
    expect(await bills()).toEqual([{ tokens: expect.any(Number) }]);
  });
});

/** Adds counts of an answer. */
const sumOf = (...counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

describe('stop_when', () => {
  async function submit(count: number, failing: (n: number) => boolean, stop_when: object): Promise<string> {
    house.simulator.control.addRule({
      id: 'refused',
      op: 'request',
      // Words that no id in the prompt, and no prompt, can hold.
      match: { contains: 'input to refuse' },
      outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'No.' },
    });
    const { body: agent } = await api('POST', '/v1/agents/', {
      model: 'anthropic/claude-haiku-4-5',
      name: 'a',
    });
    return storeBody(db, {
      template: { agent_id: agent.id.slice(6), input: '{{ text }}' },
      inputs: Array.from({ length: count }, (_, n) => ({
        custom_id: `c-${n}`,
        variables: { text: failing(n) ? `input to refuse ${n}` : `good ${n}` },
      })),
      stop_when,
    });
  }
  const small = { requests_max: 20, chunk_lines: 10 };

  test('first: cancels the batch once so many runs failed, with the reason; the rest can be tried again', async () => {
    const id = await submit(600, (n) => n % 2 === 0, { first: 5 });
    await house.drive(house.worker({ settings: small }));
    const { body } = await api('GET', `/v1/batches/job-${id}`);
    expect(body).toMatchObject({
      state: 'cancelled',
      stop_when: { first: 5, failure_rate: null, after: null },
    });
    expect(body.state_reason).toMatch(/^Cancelled by stop_when: \d+ runs failed, and the limit is 5\.$/);
    expect(body.counts.failed).toBeGreaterThanOrEqual(5);
    expect(body.counts.cancelled).toBeGreaterThan(0);
    house.simulator.control.clearRules();
    const { body: again } = await api('POST', `/v1/batches/job-${id}/retry`, {
      states: ['failed', 'cancelled'],
      stop_when: null,
    });
    expect(again.counts.total).toBe(sumOf(body.counts.failed, body.counts.cancelled));
    await house.drive(house.worker());
    expect((await api('GET', `/v1/batches/${again.id}`)).body).toMatchObject({
      state: 'completed',
      counts: { completed: again.counts.total },
    });
  });

  test('failure_rate: waits for so many ended runs, then judges their share', async () => {
    const id = await submit(600, (n) => n % 3 === 0, { failure_rate: 0.3, after: 100 });
    await house.drive(house.worker({ settings: small }));
    const { body } = await api('GET', `/v1/batches/job-${id}`);
    expect(body.state).toBe('cancelled');
    expect(body.state_reason).toMatch(
      /^Cancelled by stop_when: \d+ of \d+ ended runs failed, and the limit is 30 %\.$/,
    );
    expect(sumOf(body.counts.failed, body.counts.completed)).toBeGreaterThanOrEqual(100);
    expect(body.counts.cancelled).toBeGreaterThan(0);
  });

  test('below its limits leaves the batch alone', async () => {
    const id = await submit(60, (n) => n < 5, { first: 6, failure_rate: 0.3 });
    await house.drive(house.worker({ settings: small }));
    expect((await api('GET', `/v1/batches/job-${id}`)).body).toMatchObject({
      state: 'completed',
      state_reason: null,
      counts: { failed: 5, completed: 55 },
    });
  });

  test('is judged by the sweep when the worker dies between the commit and the mark', async () => {
    const id = await submit(60, (n) => n < 30, { first: 6 });
    const worker = house.worker({ settings: { requests_max: 30 } });
    await house.rows(`update run_chunk set run_ids = (select array_agg(id) from run where ordinal < 30)`);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await ingestAll(worker);
    await house.rows(`update batch set next_due_at = null`);
    await sweep(worker);
    expect(await house.rows('select next_due_at is not null as due from batch')).toEqual([{ due: true }]);
    await house.drive(worker);
    expect((await api('GET', `/v1/batches/job-${id}`)).body.state).toBe('cancelled');
  });
});
