import type {} from '../../../../test/global-setup.ts';
import { LOOK_POLICY_DEFAULT } from '@nightshift/agent-core';
import { readTurnarounds } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import type { RemoteBatch } from '../../src/provider/port.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House } from './house.ts';

const MINUTE = 60_000;
const POLL = {
  poll_interval_ms: MINUTE,
  poll_interval_ms_max: 5 * MINUTE,
  missing_grace_ms: 15 * MINUTE,
  looks: LOOK_POLICY_DEFAULT,
};

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), { simulator: { clock: 'virtual' } });
  house.simulator.control.configure({ latency: `fixed:${5 * MINUTE}` });
});
afterEach(() => house.close());

const looking = (): FlowDeps => house.worker({ settings: { poll: POLL, requests_max: 1 } });

/** Sends `count` provider batches of one request. */
async function send(worker: FlowDeps, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await house.submit([{ input: `alone ${index}` }]);
    await composeProviderBatch(worker);
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  }
}

/** A worker to which the provider's list shows nothing. */
const withoutList = (worker: FlowDeps): FlowDeps => ({
  ...worker,
  provider: {
    ...worker.provider,
    listBatches: () => Promise.resolve({ batches: [], complete: true, unavailable: null, now: null }),
  },
});

/** A worker whose workspace holds more batches of other programs than any number of pages shows. */
function amongStrangers(worker: FlowDeps, retrieved: string[]): FlowDeps {
  const stranger = (index: number): RemoteBatch => ({
    provider_id: `msgbatch_stranger_${index}`,
    processing_status: 'ended',
    counts: { processing: 0, succeeded: 1, errored: 0, canceled: 0, expired: 0 },
    request_count: 1,
    created_at: new Date(),
    expires_at: null,
    ended_at: null,
    archived_at: null,
    has_results: true,
  });
  return {
    ...worker,
    provider: {
      ...worker.provider,
      listBatches: ({ limitPages = 20 }) =>
        Promise.resolve({
          batches: Array.from({ length: limitPages * 1_000 }, (_, index) => stranger(index)),
          complete: false,
          unavailable: null,
          now: null,
        }),
      retrieveBatch(id, options) {
        retrieved.push(id);
        return worker.provider.retrieveBatch(id, options);
      },
    },
  };
}

const allDue = () => house.rows('update provider_batch set next_due_at = app_now()');
const gateOpens = () => house.rows('update credential set look_from = null');
const delays = () =>
  house.rows<{ ms: number }>(
    `select (extract(epoch from next_due_at - app_now()) * 1000)::float8 as ms from provider_batch
      where state = 'submitted' order by id`,
  );

test('two workers share the looks of a credential: due batches take one call, and the next waits', async () => {
  const [one, other] = [looking(), looking()];
  await send(one, 5);
  await allDue();
  expect(await pollProviderBatches(one)).toMatchObject({
    looked_at: 5,
    calls: 1,
    again_in_ms: expect.closeTo(50_000, -5) as number,
  });
  await allDue();
  for (const worker of [one, other]) {
    const report = await pollProviderBatches(worker);
    expect(report).toMatchObject({ worked: false, again_in_ms: expect.closeTo(10_000, -4) as number });
    expect(report).not.toHaveProperty('calls');
  }
});

test('a batch that is alone is retrieved by id', async () => {
  const worker = looking();
  await send(worker, 1);
  await allDue();
  expect(await pollProviderBatches(worker)).toMatchObject({ looked_at: 1, calls: 1 });
  expect(house.simulator.control.journal().entries.filter(({ op }) => op === 'retrieve')).toHaveLength(1);
});

test('batches that the list leaves out are retrieved within the calls of a minute, and the others later', async () => {
  const worker = withoutList(looking());
  await send(worker, 8);
  await allDue();
  expect(await pollProviderBatches(worker)).toMatchObject({
    looked_at: 8,
    calls: 6,
    lost: 0,
    again_in_ms: 60_000,
  });
  const [credential] = await house.rows<{ ms: number }>(
    `select (extract(epoch from look_from - app_now()) * 1000)::float8 as ms from credential`,
  );
  expect(credential?.ms).toBeGreaterThan(50_000);
  expect((await delays()).filter(({ ms }) => ms <= 0)).toHaveLength(3);
});

test('batches beyond the pages of a look are retrieved in turn, the longest due first', async () => {
  const retrieved: string[] = [];
  const worker = amongStrangers(looking(), retrieved);
  await send(worker, 3);
  const ids = await house.rows<{ provider_id: string }>(
    'select provider_id from provider_batch order by id desc',
  );
  await house.rows(`update provider_batch p set next_due_at = app_now() - place * interval '1 second'
                      from (select id, row_number() over (order by id) as place from provider_batch) as o where o.id = p.id`);
  for (const _ of ids) {
    expect(await pollProviderBatches(worker)).toMatchObject({ looked_at: 3, calls: 6, lost: 0 });
    await house.rows('update provider_batch set next_due_at = least(next_due_at, app_now())');
    await gateOpens();
  }
  expect(retrieved).toEqual(ids.map(({ provider_id }) => provider_id));
});

test('a batch that is not due yet and not in the list is left as it is', async () => {
  const worker = withoutList(looking());
  await send(worker, 3);
  await house.rows(`update provider_batch set next_due_at = app_now() + interval '50 seconds'`);
  await house.rows(
    'update provider_batch set next_due_at = app_now() where id = (select min(id::text)::uuid from provider_batch)',
  );
  expect(await pollProviderBatches(worker)).toMatchObject({ looked_at: 3, calls: 2 });
  expect((await delays()).slice(1)).toEqual([
    { ms: expect.closeTo(48_000, -4) as number },
    { ms: expect.closeTo(48_000, -4) as number },
  ]);
  expect(await house.rows('select 1 from provider_batch where missing_since is not null')).toEqual([]);
});

test('the turnaround of an ended batch decides when the next batch is looked at', async () => {
  const worker = looking();
  await send(worker, 1);
  const [{ ms: first } = { ms: 0 }] = await delays();
  expect(first).toBeGreaterThan(20_000);
  expect(first).toBeLessThan(MINUTE);
  await house.simulator.control.advance(5 * MINUTE);
  await allDue();
  expect(await pollProviderBatches(worker)).toMatchObject({ ended: 1 });
  const [[model, durations] = ['', []]] = await readTurnarounds(worker.db, 'default');
  expect(model).toBe('claude-haiku-4-5');
  expect(durations).toEqual([expect.closeTo(5 * MINUTE, -3)]);
  await house.rows(`update turnaround set durations_ms = array_fill(durations_ms[1], array[40])`);
  await gateOpens();
  await send(worker, 1);
  const [{ ms } = { ms: 0 }] = await delays();
  expect(ms).toBeGreaterThan(4 * MINUTE);
  expect(ms).toBeLessThan(5 * MINUTE);
});

test('a cancelled batch teaches no turnaround', async () => {
  const worker = looking();
  await send(worker, 1);
  await house.rows(`update provider_batch set state = 'cancelling'`);
  await house.simulator.control.advance(5 * MINUTE);
  await allDue();
  expect(await pollProviderBatches(worker)).toMatchObject({ ended: 1 });
  expect(await readTurnarounds(worker.db, 'default')).toEqual(new Map());
});
