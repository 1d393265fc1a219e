import type {} from '../../../../test/global-setup.ts';
import Anthropic from '@anthropic-ai/sdk';
import type { Signal } from '@nightshift/queue';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { openHouse, type House, type WorkerParts } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  house.simulator.control.configure({ latency: 'fixed:10000000' });
});
afterEach(() => house.close());

const MINUTE_MS = 60_000;

/** A worker, its signals and its list requests. */
function watched(parts: WorkerParts = {}) {
  const honest = house.worker(parts);
  const rung: Signal[] = [];
  const lists: Parameters<ProviderPort['listBatches']>[0][] = [];
  const worker: FlowDeps = {
    ...honest,
    bell: {
      ring(signals) {
        rung.push(...signals);
        return Promise.resolve();
      },
    },
    provider: {
      ...honest.provider,
      listBatches(asked) {
        lists.push(asked);
        return honest.provider.listBatches(asked);
      },
    },
  };
  return { worker, rung, lists };
}

/** Sends one batch of `count` requests with a given outcome of its create. Returns the id of its row. */
async function send(
  worker: FlowDeps,
  create: 'answered' | 'commitThenDrop' | 'dropBefore',
  count = 2,
): Promise<string> {
  if (create !== 'answered')
    house.simulator.control.addRule({ op: 'create', match: { times: 1 }, action: { type: create } });
  await house.submit(Array.from({ length: count }, (_, at) => ({ input: `text ${at}` })));
  await composeProviderBatch(worker);
  const report = await submitProviderBatch(worker);
  expect(report).toMatchObject({ outcome: create === 'answered' ? 'submitted' : 'unknown' });
  return String(report['provider_batch_id']);
}

async function searchFor(worker: FlowDeps, id: string): Promise<FlowReport> {
  await house.rows(`update provider_batch set next_due_at = app_now() + interval '1 hour' where id <> $1`, [
    id,
  ]);
  await house.rows('update provider_batch set next_due_at = app_now() where id = $1', [id]);
  return reconcileSubmission(worker);
}

interface Row {
  readonly state: string;
  readonly provider_id: string | null;
  readonly nonce: string;
  readonly searches: number;
  readonly expires_at: Date | null;
  readonly provider_sent_at: Date | null;
  readonly submit_started_at: Date;
}
async function rowOf(id: string): Promise<Row> {
  const [row] = await house.rows<Row>('select * from provider_batch where id = $1', [id]);
  return row ?? expect.fail('no row');
}

test('without a submission in doubt nothing happens', async () => {
  expect(await reconcileSubmission(house.worker())).toEqual({ flow: 'reconcile-submission', worked: false });
});

describe('a create without an answer', () => {
  test('that arrived is adopted with its expiry, and polled next', async () => {
    const { worker, rung, lists } = watched();
    const id = await send(worker, 'commitThenDrop');
    const { nonce, provider_sent_at } = await rowOf(id);
    rung.length = 0;
    const [theirs] = house.simulator.control.batches();
    // A foreign batch listed before it.
    await new Anthropic({ apiKey: 'test-key', baseURL: house.simulator.apiUrl }).messages.batches.create({
      requests: [
        {
          custom_id: 'theirs',
          params: {
            model: 'claude-haiku-4-5',
            max_tokens: 100,
            messages: [{ role: 'user', content: 'theirs' }],
          },
        },
      ],
    });
    const found = await worker.provider.retrieveBatch(theirs?.id ?? '');
    const report = { worked: true, provider_batch_id: id, outcome: 'adopted', provider_id: theirs?.id };
    expect(await searchFor(worker, id)).toMatchObject(report);
    expect(rung).toEqual([{ kind: 'poll', id }]);
    const { state, provider_id, expires_at, nonce: kept } = await rowOf(id);
    expect({ state, provider_id, kept }).toEqual({
      state: 'submitted',
      provider_id: theirs?.id,
      kept: nonce,
    });
    expect(found).toMatchObject({ batch: { expires_at } });
    // The search starts at the clock margin before the send.
    const margin = worker.settings.reconcile.clock_margin_ms;
    expect(lists.map(({ createdAfter }) => createdAfter.getTime())).toEqual([
      (provider_sent_at?.getTime() ?? 0) - margin,
    ]);
  });

  test('that did not arrive is sent again under another nonce after two lists, with a signal', async () => {
    const { worker, rung } = watched();
    const id = await send(worker, 'dropBefore');
    const { nonce } = await rowOf(id);
    rung.length = 0;
    const first = await searchFor(worker, id);
    expect(first).toMatchObject({ outcome: 'not found yet', alarm: false });
    expect(first).not.toHaveProperty('reason');
    expect(first).not.toHaveProperty('warning');
    expect([(await rowOf(id)).searches, rung]).toEqual([1, []]);
    expect(await searchFor(worker, id)).toMatchObject({ outcome: 'withdrawn' });
    expect(rung).toEqual([{ kind: 'submit', id }]);
    const again = await rowOf(id);
    expect([again.state, again.nonce === nonce]).toEqual(['building', false]);
  });

  test('is not given up after a failed list, and the reason is reported', async () => {
    const { worker } = watched();
    const id = await send(worker, 'dropBefore');
    house.simulator.control.addRule({ op: 'list', action: { type: 'status', code: 529 } });
    for (let search = 0; search < 4; search++)
      expect(await searchFor(worker, id)).toMatchObject({
        outcome: 'not found yet',
        warning: true,
        reason: expect.stringMatching(/^HTTP 529: /) as string,
      });
    expect(await rowOf(id)).toMatchObject({ state: 'unknown', searches: 0 });
  });

  test.each([
    [119, false],
    [121, true],
  ])('and without a trace is an alarm from two hours on: after %d minutes %s', async (minutes, alarm) => {
    const { worker } = watched();
    const id = await send(worker, 'dropBefore');
    await house.rows(
      `update provider_batch set submit_started_at = submit_started_at - $1 * interval '1 minute'`,
      [minutes],
    );
    expect(await searchFor(worker, id)).toMatchObject({ outcome: 'not found yet', alarm });
  });

  test('does not adopt the known batch of another submission', async () => {
    const { worker } = watched();
    await send(worker, 'answered');
    const id = await send(worker, 'dropBefore');
    for (const outcome of ['not found yet', 'withdrawn'])
      expect(await searchFor(worker, id)).toMatchObject({ outcome });
  });

  test('waits for a concurrent send of its size: the list may show that batch', async () => {
    const { worker } = watched();
    const sending = await send(worker, 'commitThenDrop');
    const id = await send(worker, 'dropBefore');
    await house.rows(
      `update provider_batch set state = 'submitting', lease_until = app_now() + interval '1 hour'
                       where id = $1`,
      [sending],
    );
    for (let search = 0; search < 4; search++)
      expect(await searchFor(worker, id)).toMatchObject({ outcome: 'not found yet' });
    expect(await rowOf(id)).toMatchObject({ state: 'unknown', searches: 0 });
  });

  test('is not given up while a submission of its size may have adopted its batch', async () => {
    const { worker } = watched();
    const twin = await send(worker, 'commitThenDrop');
    expect(await searchFor(worker, twin)).toMatchObject({ outcome: 'adopted' });
    const id = await send(worker, 'dropBefore');
    for (let search = 0; search < 4; search++)
      expect(await searchFor(worker, id)).toMatchObject({ outcome: 'not found yet' });
    // A line has proven the adopted batch: no batch of this size is missing now.
    await house.rows(`update doubted_submission set outcome = 'proven'`);
    for (const outcome of ['not found yet', 'withdrawn'])
      expect(await searchFor(worker, id)).toMatchObject({ outcome });
  });

  test.each([
    ['by the provider’s clock too, if that timed its send', true, 'not found yet'],
    ['by the database’s clock alone, if that timed its send', false, 'withdrawn'],
  ])('is given up when its quarantine is over %s', async (_clocks, isTimed, outcome) => {
    const reconcile = { ...house.worker().settings.reconcile, quarantine_ms: 10 * MINUTE_MS };
    const { worker, lists } = watched({ settings: { reconcile } });
    const id = await send(worker, 'dropBefore');
    if (!isTimed) await house.rows('update provider_batch set provider_sent_at = null');
    await searchFor(worker, id);
    expect(await searchFor(worker, id)).toMatchObject({ outcome });
    const { submit_started_at } = await rowOf(id);
    const started = isTimed ? [] : [submit_started_at.getTime() - reconcile.clock_margin_ms];
    expect(lists.slice(0, started.length).map(({ createdAfter }) => createdAfter.getTime())).toEqual(started);
  });
});

test('a dead sender leaves a full quarantine before the first search, and its reason', async () => {
  const reconcile = { ...house.worker().settings.reconcile, quarantine_ms: 10 * MINUTE_MS };
  const { worker, lists } = watched({ settings: { reconcile } });
  const id = await send(worker, 'dropBefore');
  await house.rows(
    `update provider_batch set state = 'submitting', lease_until = app_now() - interval '1 second'`,
  );
  expect(await searchFor(worker, id)).toMatchObject({
    worked: true,
    provider_batch_id: id,
    outcome: 'unknown',
  });
  const [row] = await house.rows<{ wait: number; reason: string }>(
    `select extract(epoch from next_due_at - app_now())::float8 as wait, error->>'reason' as reason from provider_batch`,
  );
  expect(row?.wait).toBeGreaterThan(9 * 60);
  expect(row?.reason).toMatch(/\w/);
  expect(await reconcileSubmission(worker)).toMatchObject({ worked: false });
  expect(lists).toEqual([]);
});
