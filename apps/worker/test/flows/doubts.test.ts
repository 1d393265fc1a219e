import type {} from '../../../../test/global-setup.ts';
import Anthropic from '@anthropic-ai/sdk';
import { inTransaction, resumeCredential } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { huntOrphans } from '../../src/flows/hunt-orphans/hunt-orphans.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const submitTexts = (count: number): Promise<SubmittedBatch> =>
  house.submit(Array.from({ length: count }, (_, index) => ({ input: `text ${index}` })));

const NO_GRACE = { poll_interval_ms: 0, poll_interval_ms_max: 0 };

/** Expects that every run ended well at its first attempt, and that each request was billed once. */
async function expectPaidOnce(batch: SubmittedBatch): Promise<void> {
  const { totals, repeated } = house.simulator.control.ledger();
  expect({ requests: totals.requests, twice: repeated.content_hashes }).toEqual({
    requests: batch.run_ids.length,
    twice: 0,
  });
  expect(await house.runsOf(batch.id)).toMatchObject(
    batch.run_ids.map(() => ({ stop_reason: 'end_turn', attempt: 1 })),
  );
}

test('results that are not ready are awaited for any time, and not paid again', async () => {
  const times = 6;
  house.simulator.control.addRule({
    op: 'results',
    match: { times },
    action: { type: 'status', code: 404 },
  });
  const batch = await submitTexts(3);
  // The batch ended long ago, and this provider has no lag as an excuse.
  const worker = house.worker({ settings: { poll: { ...NO_GRACE, missing_grace_ms: 0 } } });
  const reports = await house.drive(worker, { hasten: true });
  expect(reports.filter((report) => report['reason'] === 'not_ready')).toHaveLength(times);
  await expectPaidOnce(batch);
});

test('results missing for an hour are an alarm', async () => {
  house.simulator.control.addRule({
    op: 'results',
    match: { nth: [1, 2] },
    action: { type: 'status', code: 404 },
  });
  const batch = await submitTexts(1);
  const worker = house.worker();
  await expect(house.drive(worker, { rounds: 4 })).rejects.toThrow(/not ended/);
  await house.rows(`update provider_batch set ended_at = ended_at - interval '61 minutes'`);
  const reports = await house.drive(worker, { hasten: true });
  expect(reports.filter((report) => report['alarm'] === true)).toMatchObject([{ reason: 'not_ready' }]);
  await expectPaidOnce(batch);
});

test('"no such batch" on both sides of an outage does not prove that it is gone', async () => {
  const { control } = house.simulator;
  for (const code of [404, 503, 404])
    control.addRule({ op: 'retrieve', match: { times: 1 }, action: { type: 'status', code } });
  const batch = await submitTexts(3);
  const worker = house.worker({ settings: { poll: { ...NO_GRACE, missing_grace_ms: 60_000 } } });
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  // The operator is told once each time that it begins.
  const unknown = 'the provider does not know a batch; it is asked again';
  for (const reason of [unknown, expect.stringMatching(/^HTTP 503: /) as string, unknown]) {
    await house.hasten();
    expect(await pollProviderBatches(worker)).toMatchObject({ warning: true, reason });
    await house.rows(`update provider_batch set missing_since = missing_since - interval '61 seconds'`);
  }
  expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'submitted' }]);
  await house.drive(worker, { hasten: true });
  await expectPaidOnce(batch);
});

test('a lost batch that was given up and reappears is booked as an orphan, with an alarm', async () => {
  house.simulator.control.addRule({
    op: 'retrieve',
    match: { batch_seq: 1 },
    action: { type: 'status', code: 404 },
  });
  const batch = await submitTexts(3);
  const worker = house.worker();
  await house.drive(worker, { hasten: true });
  expect(await house.runsOf(batch.id)).toMatchObject(batch.run_ids.map(() => ({ stop_reason: 'end_turn' })));
  const [first] = house.simulator.control.batches();
  expect(await huntOrphans(worker)).toMatchObject({ booked: 1, alarm: true });
  expect(await huntOrphans(worker)).toMatchObject({ booked: 0 });
  expect(
    await house.rows(`select provider_id, request_count from provider_batch where state = 'orphan_paid'`),
  ).toEqual([{ provider_id: first?.id, request_count: 3 }]);
});

test('a second batch is booked only after the provider took its cancel', async () => {
  const { control } = house.simulator;
  control.configure({ latency: 'fixed:10000000' });
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const hidden = control.addRule({ op: 'list', action: { type: 'omit' } });
  await submitTexts(3);
  const worker = house.worker();
  await expect(house.drive(worker, { hasten: true, rounds: 8 })).rejects.toThrow(/not ended/);
  // Withdrawn after two empty lists, and sent again: now the provider shows the first batch.
  expect(control.batches()).toHaveLength(2);
  control.removeRule(hidden);
  control.addRule({ op: 'cancel', match: { times: 1 }, action: { type: 'status', code: 529 } });
  const unheard = { warning: true, reason: expect.stringMatching(/^HTTP 529: /) as string };
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 1, booked: 0, ...unheard });
  control.addRule({ op: 'list', match: { times: 1 }, action: { type: 'status', code: 529 } });
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 0, booked: 0, ...unheard });
  expect(await huntOrphans(worker)).toMatchObject({ suspected: 1, booked: 1, alarm: true });
  const [first, second] = control.batches();
  expect([first?.status, second?.status]).toEqual(['canceling', 'in_progress']);
});

test('an adopted batch stays ours if its first download is a single foreign line', async () => {
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const batch = await submitTexts(4);
  const honest = house.worker();
  let downloads = 0;
  const worker = {
    ...honest,
    provider: {
      ...honest.provider,
      streamResults: async (...asked: Parameters<typeof honest.provider.streamResults>) => {
        downloads += 1;
        if (downloads > 1) return honest.provider.streamResults(...asked);
        const line = `{"custom_id":"abcdef-${'0'.repeat(32)}-1","result":{"type":"expired"}}\n`;
        const chunks = (async function* () {
          yield await Promise.resolve(Buffer.from(line));
        })();
        return { outcome: 'open' as const, chunks };
      },
    },
  };
  await house.drive(worker, { hasten: true });
  expect(house.simulator.control.batches()).toHaveLength(1);
  await expectPaidOnce(batch);
});

/** Another sender in the workspace. */
const stranger = (): Anthropic.Messages.Batches =>
  new Anthropic({ apiKey: 'test-key', baseURL: house.simulator.apiUrl }).messages.batches;

/**
 * Lets a batch in doubt adopt a foreign batch of its size, because its own is not listed yet. The other never ends by
 * itself and is never billed. Returns the id of the adopted batch. `create`: the outcome of our own create.
 */
async function adoptStrangers(
  worker: FlowDeps,
  create: 'commitThenDrop' | 'dropBefore' = 'commitThenDrop',
): Promise<{ readonly batch: SubmittedBatch; readonly theirs: string }> {
  const { control } = house.simulator;
  control.configure({ latency: 'fixed:10000000' });
  const messages = [{ role: 'user' as const, content: 'theirs' }];
  const theirs = await stranger().create({
    requests: [0, 1, 2].map((index) => ({
      custom_id: `theirs-${index}`,
      params: { model: 'claude-haiku-4-5', max_tokens: 100, messages },
    })),
  });
  control.configure({ latency: 'fixed:0' });
  control.addRule({ op: 'create', match: { times: 1 }, action: { type: create } });
  const hidden = control.addRule({ op: 'list', action: { type: 'omit', batch_seq: 2 } });
  const batch = await submitTexts(3);
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted', provider_id: theirs.id });
  control.removeRule(hidden);
  return { batch, theirs: theirs.id };
}

/** Ends it, and lets its owner delete it before we look. */
async function deleteTheirs(theirs: string): Promise<void> {
  await house.simulator.control.command(theirs, 'expire');
  await stranger().delete(theirs);
}

/** Ends it, and polls. */
async function endTheirs(theirs: string, worker: FlowDeps): Promise<void> {
  await house.simulator.control.command(theirs, 'expire');
  expect(await pollProviderBatches(worker)).toMatchObject({ ended: 1 });
}

test.each<[string, (theirs: string, worker: FlowDeps) => Promise<unknown>]>([
  ['its owner deletes it before we see that it has ended', deleteTheirs],
  [
    'its owner deletes it after that',
    async (theirs, worker) => {
      await endTheirs(theirs, worker);
      await stranger().delete(theirs);
    },
  ],
  [
    'its results are archived',
    async (theirs, worker) => {
      await endTheirs(theirs, worker);
      await house.simulator.control.command(theirs, 'archive');
    },
  ],
  [
    'no pass over its results shows a line',
    (theirs, worker) => {
      house.simulator.control.addRule({
        op: 'results',
        match: { batch_seq: 1 },
        action: { type: 'dropLines', probability: 1 },
      });
      return endTheirs(theirs, worker);
    },
  ],
])(
  'an adopted batch that is gone before a line proved it, because %s, was not ours',
  async (_why, vanish) => {
    const worker = house.worker();
    const { batch, theirs } = await adoptStrangers(worker);
    await vanish(theirs, worker);
    await house.drive(worker, { hasten: true });
    const [, ours, ...again] = house.simulator.control.batches();
    expect(again).toEqual([]);
    expect(
      await house.rows('select state, provider_id, not_ours, missing_since, streams from provider_batch'),
    ).toEqual([
      { state: 'ingested', provider_id: ours?.id, not_ours: [theirs], missing_since: null, streams: 1 },
    ]);
    await expectPaidOnce(batch);
  },
);

test('a search that finds no other batch after an adopted batch is gone ends: its requests are sent again', async () => {
  const worker = house.worker();
  const { batch, theirs } = await adoptStrangers(worker, 'dropBefore');
  await deleteTheirs(theirs);
  const reports = await house.drive(worker, { hasten: true });
  const outcomes = reports.map((report) => report['outcome']).filter((outcome) => outcome !== undefined);
  expect(outcomes.slice(0, 3)).toEqual(['not found yet', 'withdrawn', 'submitted']);
  expect(house.simulator.control.ledger().totals.requests).toBe(3);
  expect(await house.runsOf(batch.id)).toMatchObject(
    batch.run_ids.map(() => ({ stop_reason: 'end_turn', attempt: 2 })),
  );
});

test.each(['commitThenDrop', 'dropBefore'] as const)(
  'after a cancel reached an adopted batch that is gone, the cancel goes on to our own batch, if any: %s',
  async (create) => {
    const worker = house.worker();
    const { batch, theirs } = await adoptStrangers(worker, create);
    await house.cancel(batch.id);
    expect(await cancelBatch(worker)).toMatchObject({ upstream: 1 });
    expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'cancelling' }]);
    await deleteTheirs(theirs);
    await house.drive(worker, { hasten: true });
    expect(await house.rows('select state from batch')).toEqual([{ state: 'cancelled' }]);
    const isOurs = create === 'commitThenDrop';
    expect(await house.rows('select state, not_ours from provider_batch')).toEqual([
      { state: isOurs ? 'ingested' : 'rejected', not_ours: [theirs] },
    ]);
    // Paid answers are kept, and nothing is paid again.
    expect(house.simulator.control.batches()).toHaveLength(isOurs ? 2 : 1);
    expect(await house.rows('select state, attempt from step')).toEqual(
      isOurs ? batch.run_ids.map(() => ({ state: 'done', attempt: 1 })) : [],
    );
  },
);

test('an adopted batch that a line has proven is ours: lines missing from archived results are sent again', async () => {
  const { control } = house.simulator;
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  control.addRule({ op: 'results', match: { times: 1 }, action: { type: 'cut', at_lines: 1 } });
  const batch = await submitTexts(3);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted' });
  await pollProviderBatches(worker);
  expect(await ingestResults(worker)).toMatchObject({ outcome: 'again', applied: 1 });
  const [first] = control.batches();
  await control.command(first!.id, 'archive');
  await house.hasten();
  expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested with gaps', missing: 2 });
  await house.drive(worker, { hasten: true });
  expect((await house.runsOf(batch.id)).map(({ attempt }) => attempt).sort()).toEqual([1, 2, 2]);
});

test('a cancel acknowledged while the body is encoded is not overtaken by the send', async () => {
  const batch = await submitTexts(3);
  const worker = house.worker({
    hooks: (point) => (point === 'submit.after_encode' ? house.cancel(batch.id) : undefined),
  });
  await house.drive(worker, { hasten: true });
  expect(house.simulator.control.batches()).toEqual([]);
  expect(await house.runsOf(batch.id)).toMatchObject(batch.run_ids.map(() => ({ state: 'cancelled' })));
});

/** Makes every request fail at the provider with this error until the rule is removed. */
function everythingFailsWith(error_type: 'overloaded_error' | 'api_error' | 'billing_error'): string {
  return house.simulator.control.addRule({
    op: 'request',
    outcome: { type: 'errored', error_type, message: 'not now' },
  });
}

test.each([
  ['overloaded_error', 2],
  ['api_error', 12],
] as const)(
  'an outage reported as %s on every line uses up no attempt and fails no run',
  async (type, count) => {
    const rule = everythingFailsWith(type);
    const batch = await submitTexts(count);
    const worker = house.worker();
    await expect(house.drive(worker, { hasten: true, rounds: 30 })).rejects.toThrow(/not ended/);
    expect(house.simulator.control.batches().length).toBeGreaterThan(6);
    expect(await house.rows('select distinct failures from run')).toEqual([{ failures: 0 }]);
    house.simulator.control.removeRule(rule);
    await house.drive(worker, { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject(
      batch.run_ids.map(() => ({ stop_reason: 'end_turn' })),
    );
  },
);

test('a billing error in a result pauses all sending for a while, with its reason', async () => {
  const rule = everythingFailsWith('billing_error');
  const batch = await submitTexts(2);
  const worker = house.worker({
    settings: { refusal: { ...house.worker().settings.refusal, pause_ms: 600_000 } },
  });
  const ingested = async () => {
    for (const flow of [composeProviderBatch, submitProviderBatch, pollProviderBatches]) await flow(worker);
    return ingestResults(worker);
  };
  await expect.poll(ingested, { interval: 5 }).toMatchObject({
    outcome: 'ingested',
    alarm: true,
    reason: 'a result says billing_error',
  });
  await expect(house.drive(worker, { rounds: 12 })).rejects.toThrow(/not ended/);
  expect(house.simulator.control.batches()).toHaveLength(1);
  expect(
    await house.rows(
      `select pause_reason, paused_until > app_now() + interval '9 minutes' as paused from credential`,
    ),
  ).toEqual([{ pause_reason: 'a result says billing_error', paused: true }]);
  house.simulator.control.removeRule(rule);
  await house.drive(worker, { hasten: true });
  expect(await house.runsOf(batch.id)).toMatchObject(batch.run_ids.map(() => ({ stop_reason: 'end_turn' })));
});

test('a result that is read again pauses nothing once its key is mended', async () => {
  const { control } = house.simulator;
  control.configure({ result_order: 'submitted' });
  control.addRule({
    op: 'request',
    match: { contains: 'text 0' },
    outcome: { type: 'errored', error_type: 'billing_error', message: 'not now' },
  });
  control.addRule({ op: 'results', match: { times: 1 }, action: { type: 'dropLines', at: [1] } });
  await submitTexts(2);
  const worker = house.worker({
    settings: { refusal: { ...house.worker().settings.refusal, pause_ms: 600_000 } },
  });
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await expect
    .poll(async () => {
      await pollProviderBatches(worker);
      return house.rows('select state from provider_batch');
    })
    .toEqual([{ state: 'ended' }]);
  const isPaused = (): Promise<unknown> =>
    house.rows('select paused_until is not null as paused from credential');
  let pausedBefore: unknown;
  const looking: FlowDeps = {
    ...worker,
    hooks: async (point) => {
      if (point === 'ingest.before_commit') pausedBefore = await isPaused();
    },
  };
  expect(await ingestResults(looking)).toMatchObject({
    outcome: 'again',
    applied: 1,
    reason: 'a result says billing_error; steps without a line',
  });
  // A worker that crashed right after the commit has paused it.
  expect(pausedBefore).toEqual([{ paused: true }]);
  expect(await inTransaction(house.database.db, (trx) => resumeCredential(trx, 'default'))).toBe(
    'a result says billing_error',
  );
  await house.hasten();
  expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested', applied: 1 });
  expect(await isPaused()).toEqual([{ paused: false }]);
});

test('a batch that has not ended an hour after its expiry is an alarm', async () => {
  house.simulator.control.configure({ latency: 'fixed:10000000' });
  await submitTexts(1);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await house.hasten();
  expect(await pollProviderBatches(worker)).not.toHaveProperty('alarm');
  await house.rows(`update provider_batch set expires_at = app_now() - interval '61 minutes'`);
  await house.hasten();
  expect(await pollProviderBatches(worker)).toMatchObject({ alarm: true });
});

test('a batch sent weeks ago is retrieved, and its answers are ingested', async () => {
  const batch = await submitTexts(2);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await house.rows(
    `update provider_batch set created_at = created_at - interval '20 days', submitted_at = submitted_at - interval '20 days',
            submit_started_at = submit_started_at - interval '20 days', expires_at = expires_at - interval '20 days'`,
  );
  await house.drive(worker, { hasten: true });
  await expectPaidOnce(batch);
});

test('a create in doubt for hours is an alarm', async () => {
  const { control } = house.simulator;
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  control.addRule({ op: 'list', action: { type: 'status', code: 500 } });
  await submitTexts(1);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'not found yet', alarm: false });
  await house.rows(`update provider_batch set submit_started_at = submit_started_at - interval '3 hours'`);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'not found yet', alarm: true });
});
