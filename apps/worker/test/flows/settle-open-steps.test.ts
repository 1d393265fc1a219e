import type {} from '../../../../test/global-setup.ts';
import { newId, type ClaimedProviderBatch, type Lease } from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { settleOpenSteps, settleSteps } from '../../src/flow-parts/results/settle-open-steps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  house.simulator.control.configure({ latency: 'fixed:10000000' });
});
afterEach(() => house.close());

/** Sends a provider batch of five steps, and returns it with a worker's lease. */
async function sent(worker: FlowDeps) {
  const { id: batchId, run_ids } = await house.submit(
    Array.from({ length: 5 }, (_, at) => ({ input: `text ${at}` })),
  );
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  const [batch] = await house.rows<ClaimedProviderBatch>(
    `update provider_batch set lease_owner = $1, lease_until = app_now() + interval '1 minute' returning *`,
    [worker.claimant.owner],
  );
  if (batch === undefined) throw new Error('no provider batch');
  const lease: Lease = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch };
  return { batchId, run_ids, batch, lease };
}

const stepStates = async (): Promise<readonly string[]> =>
  (await house.rows<{ state: string }>('select state from step')).map(({ state }) => state);
const SEALED = Array.from({ length: 5 }, () => 'sealed');

test('every open step is given up, chunk by chunk, and its run tries again', async () => {
  const settings = { chunk_lines: 2 };
  const worker = house.worker({ settings });
  const { batchId, batch, lease } = await sent(worker);
  expect(await settleOpenSteps(worker, batch, lease)).toBe(5);
  expect(await stepStates()).toEqual(SEALED.map(() => 'lost'));
  expect(await house.runsOf(batchId)).toMatchObject(SEALED.map(() => ({ state: 'ready', attempt: 2 })));
  expect(await settleOpenSteps(worker, batch, lease)).toBe(0);
});

test('the batch whose last runs it ends is finished, with a signal', async () => {
  const retry = {
    attempts_max: 1,
    retry_delay_ms: 0,
    retry_delay_ms_max: 0,
    outage_delay_ms: 0,
    outage_ms_max: 7_200_000,
  };
  const honest = house.worker({ settings: { retry } });
  const rung: Signal[] = [];
  const ring: FlowDeps['bell']['ring'] = (signals) => {
    rung.push(...signals);
    return Promise.resolve();
  };
  const worker = { ...honest, bell: { ring } };
  const { batchId, batch, lease } = await sent(worker);
  rung.length = 0;
  await settleOpenSteps(worker, batch, lease);
  expect(new Set((await house.runsOf(batchId)).map(({ state }) => state))).toEqual(new Set(['failed']));
  expect(rung).toContainEqual({ kind: 'finish', id: batchId });
});

test.each<[string, (key: { run_id: string }) => { run_id: string; number: number; attempt: number }, RegExp]>(
  [
    [
      'is of another step than its run',
      ({ run_id }) => ({ run_id, number: 2, attempt: 1 }),
      /sealed and its run is/,
    ],
    [
      'is of another attempt than its run',
      ({ run_id }) => ({ run_id, number: 1, attempt: 2 }),
      /sealed and its run is/,
    ],
    ['has no run', () => ({ run_id: newId(), number: 1, attempt: 1 }), /of a sealed step is gone/],
  ],
)('an outcome that %s is an error, and nothing is settled beside it', async (_what, wrong, error) => {
  const worker = house.worker();
  const { run_ids, lease } = await sent(worker);
  const [first = '', second = ''] = run_ids;
  const missing = { kind: 'missing', bill: null } as const;
  const settled = [
    { key: { run_id: first, number: 1, attempt: 1 }, outcome: missing },
    { key: wrong({ run_id: second }), outcome: missing },
  ];
  await expect(settleSteps(worker, lease, settled)).rejects.toThrow(error);
  expect(await stepStates()).toEqual(SEALED);
});

test.each([
  ['whose lease was lost', (lease: Lease): Lease => ({ ...lease, epoch: lease.epoch + 1 }), undefined],
  ['if another write beside it fails', (lease: Lease) => lease, () => Promise.reject(new Error('no room'))],
])('nothing is settled by a worker %s', async (_what, held, also) => {
  const worker = house.worker();
  const { run_ids, lease } = await sent(worker);
  const settled = run_ids.map((run_id) => ({
    key: { run_id, number: 1, attempt: 1 },
    outcome: { kind: 'missing', bill: null } as const,
  }));
  await expect(settleSteps(worker, held(lease), settled, also)).rejects.toThrow();
  expect(await stepStates()).toEqual(SEALED);
  await settleSteps(worker, lease, settled);
  expect(await stepStates()).toEqual(SEALED.map(() => 'lost'));
});
