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
