import type {} from '../../../../test/global-setup.ts';
import { inTransaction } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

/** Submits a batch of one run, which is a chunk of its own. */
async function submitOne(text: string): Promise<void> {
  await house.submit([{ input: text }]);
}

/** Composes, and expects that the next look may follow at once. */
async function expectNoRest(
  worker: ReturnType<House['worker']>,
  sealed: { readonly requests: number },
): Promise<void> {
  const report = await composeProviderBatch(worker);
  expect(report).toMatchObject({ worked: true, ...sealed });
  expect(report).not.toHaveProperty('rest_ms');
}

test('after all due runs are taken, the next look is when another run falls due', async () => {
  const worker = house.worker();
  await submitOne('later');
  await house.rows(`update run_chunk set next_due_at = app_now() + interval '1 minute'`);
  await submitOne('now');
  const report = await composeProviderBatch(worker);
  expect(report).toMatchObject({ worked: true, requests: 1, rest_ms: 0 });
  expect(report.again_in_ms).toBeGreaterThan(50_000);
  expect(report.again_in_ms).toBeLessThanOrEqual(60_000);
});

test('after a full provider batch, the next look is at once', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  for (const text of ['one', 'other']) await submitOne(text);
  await expectNoRest(worker, { requests: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});

test('after a look that left runs of other workers, the next look is later', async () => {
  const worker = house.worker();
  await submitOne('held');
  await inTransaction(worker.db, async (trx) => {
    await trx.selectFrom('run_chunk').select('id').forUpdate().execute();
    await submitOne('free');
    expect(await composeProviderBatch(worker)).toMatchObject({
      worked: true,
      requests: 1,
      rest_ms: 0,
      again_in_ms: 1_000,
    });
  });
});

test('a full backlog of runs that may not be sent does not delay the runs behind it', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  await submitOne('paused');
  await house.rows(`update batch set state = 'paused', state_reason = 'requested'`);
  await submitOne('running');
  await expectNoRest(worker, { requests: 0 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});

test('runs that another worker is sealing are looked for later, not at once', async () => {
  const worker = house.worker();
  await submitOne('held');
  await inTransaction(worker.db, async (trx) => {
    await trx.selectFrom('run_chunk').select('id').forUpdate().execute();
    const report = await composeProviderBatch(worker);
    expect(report).toMatchObject({ worked: false, again_in_ms: 1_000, rest_ms: 1_000 });
  });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});

test('runs wait for others within the gather window, but not after the ingest of their provider batch', async () => {
  const worker = house.worker();
  await house.submit([
    {
      input: '{"tool":"core_memory_append","args":{"label":"notes","content":"x"}}',
      blocks: { notes: '' },
      tools: ['core_memory_append'],
    },
  ]);
  expect(await composeProviderBatch(worker)).toMatchObject({ requests: 1 });
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  const rung: string[] = [];
  const patient = {
    ...house.worker({ settings: { gather_window_ms: 3_600_000 } }),
    bell: {
      ring(signals: readonly { readonly kind: string }[]) {
        rung.push(...signals.map(({ kind }) => kind));
        return Promise.resolve();
      },
    },
  };
  await submitOne('waits');
  expect(await composeProviderBatch(patient)).toMatchObject({ worked: false, rest_ms: 250 });
  while ((await pollProviderBatches(patient))['ended'] !== 1)
    await new Promise((resolve) => setImmediate(resolve));
  const composed: unknown[] = [];
  const hooks = async (point: string): Promise<void> => {
    if (point === 'ingest.before_end') composed.push(await composeProviderBatch(patient));
  };
  expect(await ingestResults({ ...patient, hooks })).toMatchObject({ outcome: 'ingested', applied: 1 });
  expect(composed).toMatchObject([{ worked: false }]);
  expect(rung.at(-1)).toBe('compose');
  expect(await composeProviderBatch(patient)).toMatchObject({ worked: true, requests: 2 });
});
