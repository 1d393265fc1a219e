import type {} from '../../../../test/global-setup.ts';
import { inTransaction } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

/** A batch of one run: a chunk of its own. */
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

test('who has taken all that is due looks again when something else falls due, not at once', async () => {
  const worker = house.worker();
  await submitOne('later');
  await house.rows(`update run_chunk set next_due_at = app_now() + interval '1 minute'`);
  await submitOne('now');
  const report = await composeProviderBatch(worker);
  expect(report).toMatchObject({ worked: true, requests: 1, rest_ms: 0 });
  expect(report.again_in_ms).toBeGreaterThan(50_000);
  expect(report.again_in_ms).toBeLessThanOrEqual(60_000);
});

test('who has filled a provider batch looks for more at once', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  for (const text of ['one', 'other']) await submitOne(text);
  await expectNoRest(worker, { requests: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});

test('who has taken what others left looks for the rest in a while', async () => {
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

test('runs that may not be sent hold nobody up: behind a full backlog of them is looked at once', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  await submitOne('paused');
  await house.rows(`update batch set state = 'paused', state_reason = 'requested'`);
  await submitOne('running');
  await expectNoRest(worker, { requests: 0 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});

test('what another worker is sealing is looked for again in a while, not at once', async () => {
  const worker = house.worker();
  await submitOne('held');
  await inTransaction(worker.db, async (trx) => {
    await trx.selectFrom('run_chunk').select('id').forUpdate().execute();
    const report = await composeProviderBatch(worker);
    expect(report).toMatchObject({ worked: false, again_in_ms: 1_000, rest_ms: 1_000 });
  });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 1 });
});
