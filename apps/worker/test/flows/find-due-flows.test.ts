import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { acceptBatch } from '../../src/flows/accept-batch/accept-batch.ts';
import { auditBooks } from '../../src/flows/audit-books/audit-books.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { deliverWebhooks } from '../../src/flows/deliver-webhooks/deliver-webhooks.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { forgetBatches } from '../../src/flows/forget-batches/forget-batches.ts';
import { findDueFlows, type DueFlow } from '../../src/flows/find-due-flows.ts';
import { fireSchedules } from '../../src/flows/fire-schedules/fire-schedules.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { runToolTrial } from '../../src/flows/run-tool-trials/run-tool-trial.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { openHouse, script, type House, type SubmittedBatch } from './house.ts';

const FLOWS: Readonly<Record<DueFlow, (deps: FlowDeps) => Promise<FlowReport>>> = {
  accept: acceptBatch,
  compose: composeProviderBatch,
  submit: submitProviderBatch,
  reconcile: reconcileSubmission,
  poll: pollProviderBatches,
  ingest: ingestResults,
  tools: runToolCalls,
  trial: runToolTrial,
  finish: finishBatch,
  cancel: cancelBatch,
  webhook: deliverWebhooks,
  sweep,
  audit: auditBooks,
  forget: forgetBatches,
  fire: fireSchedules,
};

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const dueFlows = async (worker: FlowDeps): Promise<readonly DueFlow[]> =>
  [...(await findDueFlows(worker))].sort();

/** Runs exactly the flows that each look names, until a look names none and the batches have ended. */
async function driveByLooks(worker: FlowDeps, batches: readonly SubmittedBatch[]): Promise<Set<DueFlow>> {
  const named = new Set<DueFlow>();
  for (let round = 0; round < 300; round++) {
    const due = await findDueFlows(worker);
    for (const flow of due) {
      named.add(flow);
      await FLOWS[flow](worker);
    }
    const open = await house.rows(
      `select 1 from batch where id = any($1) and (completed_at is null or next_due_at is not null)`,
      [batches.map(({ id }) => id)],
    );
    if (open.length === 0 && due.size === 0) return named;
    if (due.size === 0) await house.hasten();
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('The batches do not end by the flows that looks name.');
}

describe('one look', () => {
  test('names no flow when nothing is due', async () => {
    const worker = house.worker();
    expect(await dueFlows(worker)).toEqual(['audit']);
    await auditBooks(worker);
    expect(await dueFlows(worker)).toEqual([]);
  });

  test('is enough: the flows that looks name do all the work', async () => {
    const worker = house.worker();
    const first = await house.submit([
      {
        input: script({ tool: 'rethink_memory', args: { new_memory: 'x', target_block_label: 'human' } }),
        blocks: { human: 'Name: ?' },
        tools: ['rethink_memory'],
      },
      { input: 'hello' },
      { input: 'too late', deadline: '2001-01-01T00:00:00Z' },
      { input: 'first of two' },
      { input: 'second of two', same_agent_as: 3 },
    ]);
    const capped = await house.submit(
      Array.from({ length: 4 }, (_, index) => ({ input: `Say ${index}.` })),
      { cap: { cost_nanousd: null, output_tokens: 1_500 } },
    );
    const cancelled = await house.submit([{ input: 'never mind' }]);
    await composeProviderBatch(worker);
    await house.cancel(cancelled.id);
    await house.rows('update batch set callback_url = $2 where id = $1', [
      first.id,
      'http://callbacks.invalid/',
    ]);
    const named = await driveByLooks(worker, [first, cancelled]);
    expect([...named].sort()).toEqual(
      expect.arrayContaining(['cancel', 'compose', 'finish', 'ingest', 'poll', 'submit', 'sweep', 'webhook']),
    );
    const states = await house.rows<{ id: string; state: string }>('select id, state from batch');
    expect(Object.fromEntries(states.map(({ id, state }) => [id, state]))).toMatchObject({
      [first.id]: 'completed',
      [cancelled.id]: 'cancelled',
    });
    expect((await house.runsOf(first.id)).map(({ state }) => state)).toEqual([
      'completed',
      'completed',
      'failed',
      'completed',
      'completed',
    ]);
    expect(states.find(({ id }) => id === capped.id)?.state).toMatch(/^(completed|paused)$/);
  });

  test('skips rows with a lease, and finds them again when it expires', async () => {
    const worker = house.worker();
    const { id } = await house.submit([{ input: 'hello' }]);
    await auditBooks(worker);
    await composeProviderBatch(worker);
    expect(await dueFlows(worker)).toEqual(['submit']);
    await house.rows(
      `update provider_batch set lease_owner = 'other', lease_until = app_now() + interval '1 minute'`,
    );
    expect(await dueFlows(worker)).toEqual([]);
    await house.rows(`update provider_batch set lease_until = app_now() - interval '1 second'`);
    expect(await dueFlows(worker)).toEqual(['submit']);
    await house.cancel(id);
    expect(await dueFlows(worker)).toEqual(['cancel', 'submit']);
  });

  test.each([
    ['submitting', 'reconcile', `submit_started_at = app_now(), body_bytes = 1, body_sha256 = 'x'`],
    ['unknown', 'reconcile', `submit_started_at = app_now(), body_bytes = 1, body_sha256 = 'x'`],
    ['submitted', 'poll', ''],
    ['cancelling', 'poll', ''],
    ['ended', 'ingest', 'ended_at = app_now()'],
  ] as const)('names for a provider batch that is %s the flow that claims it', async (state, flow, sets) => {
    const worker = house.worker();
    await house.submit([{ input: 'hello' }]);
    await auditBooks(worker);
    await composeProviderBatch(worker);
    if (flow !== 'reconcile') await submitProviderBatch(worker);
    await house.rows(`update provider_batch set state = '${state}' ${sets === '' ? '' : `, ${sets}`}`);
    const [before] = await house.rows<{ lease_epoch: number }>('select lease_epoch from provider_batch');
    expect(await dueFlows(worker)).toEqual([flow]);
    await FLOWS[flow](worker);
    const [after] = await house.rows<{ lease_epoch: number }>('select lease_epoch from provider_batch');
    expect(after?.lease_epoch).toBeGreaterThan(before?.lease_epoch ?? 0);
  });

  test('names the sweep for work without a due row', async () => {
    const worker = house.worker();
    await auditBooks(worker);
    const { id, agent_ids } = await house.submit([{ input: 'hello' }]);
    await house.drive(worker);
    expect(await dueFlows(worker)).toEqual([]);
    await house.rows('update agent set keeps_blocks = true, deleted_at = app_now() where id = $1', [
      agent_ids[0],
    ]);
    expect(await dueFlows(worker)).toEqual(['sweep']);
    await sweep(worker);
    expect(await dueFlows(worker)).toEqual([]);
    await house.rows(
      `insert into idempotency_key (project_id, key, request_sha256, batch_id, created_at)
       select project_id, 'a key', '', id, app_now() - interval '8 days' from batch where id = $1`,
      [id],
    );
    expect(await dueFlows(worker)).toEqual(['sweep']);
    await sweep(worker);
    expect(await dueFlows(worker)).toEqual([]);
    await house.rows(
      `insert into deleted_item (id, project_id, kind, created_at, deleted_at)
       select gen_random_uuid(), project_id, 'tool', created_at, app_now() - days * interval '1 day'
         from batch, unnest(array[8, 6]) as days where id = $1`,
      [id],
    );
    expect(await dueFlows(worker)).toEqual(['sweep']);
    await sweep(worker);
    expect(await dueFlows(worker)).toEqual([]);
    expect(await house.rows('select kind from deleted_item')).toHaveLength(1);
    await house.rows(
      `update batch set state = 'running', completed_at = null, next_due_at = null where id = $1`,
      [id],
    );
    expect(await dueFlows(worker)).toEqual(['sweep']);
    await sweep(worker);
    expect(await dueFlows(worker)).toEqual(['finish']);
  });
});
