import type {} from '../../../../test/global-setup.ts';
import Anthropic from '@anthropic-ai/sdk';
import { PAUSE_REASONS } from '@nightshift/agent-core';
import { inTransaction, resumeCredential } from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { huntOrphans } from '../../src/flows/hunt-orphans/hunt-orphans.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const MINUTE_MS = 60_000;
const submitTexts = (count: number): Promise<SubmittedBatch> =>
  house.submit(Array.from({ length: count }, (_, index) => ({ input: `text ${index}` })));
const skewBy = (skew_ms: number): unknown => house.simulator.control.configure({ timestamps: { skew_ms } });
const credential = async (): Promise<unknown> =>
  (await house.rows('select pause_reason, failures, clock_offset_ms from credential'))[0];

/** Reads the number of billed requests, and of requests billed twice. */
function billed(): { requests: number; twice: number } {
  const { totals, repeated } = house.simulator.control.ledger();
  return { requests: totals.requests, twice: repeated.content_hashes };
}

test('nothing is sent while the clocks are too far apart for a search; the reason shows and ends with the cause', async () => {
  skewBy(31 * MINUTE_MS);
  const batch = await submitTexts(2);
  const worker = house.worker();
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({
    outcome: 'put off',
    alarm: true,
    reason: expect.stringMatching(/clock is 18[56]\d s ahead of the database's/) as string,
  });
  expect(house.simulator.control.batches()).toEqual([]);
  expect(await credential()).toMatchObject({ pause_reason: PAUSE_REASONS.clocks_apart, failures: 0 });
  skewBy(29 * MINUTE_MS);
  // A few answers of the old time do not outweigh answers of the new time.
  for (let asked = 0; asked < 3; asked++) await worker.provider.clock.refresh();
  expect(await inTransaction(house.database.db, (trx) => resumeCredential(trx, 'default'))).toBe(
    PAUSE_REASONS.clocks_apart,
  );
  await house.drive(worker, { hasten: true });
  expect(billed()).toEqual({ requests: batch.run_ids.length, twice: 0 });
});

test('an offset is an alarm from half a minute on, reported once and stored with its credential', async () => {
  skewBy(-40_000);
  await submitTexts(1);
  const worker = house.worker();
  const reports = await house.drive(worker, { hasten: true });
  expect(reports.filter(({ alarm }) => alarm === true)).toMatchObject([
    { flow: 'submit-provider-batch', outcome: 'submitted' },
  ]);
  const { clock_offset_ms } = (await credential()) as { clock_offset_ms: number };
  expect(Math.abs(clock_offset_ms + 40_000)).toBeLessThan(2_000);
});

test('a provider without a time is sent to, and searched by the database’s clock', async () => {
  house.simulator.control.addRule({ op: 'create', match: { times: 1 }, action: { type: 'commitThenDrop' } });
  const batch = await submitTexts(2);
  const honest = house.worker();
  const silent = {
    ...honest.provider,
    clock: { read: () => null, refresh: () => Promise.resolve() },
    listBatches: async (...asked: Parameters<typeof honest.provider.listBatches>) => ({
      ...(await honest.provider.listBatches(...asked)),
      now: null,
    }),
  };
  await house.drive({ ...honest, provider: silent }, { hasten: true });
  expect(await house.rows('select provider_sent_at from provider_batch')).toEqual([
    { provider_sent_at: null },
  ]);
  expect(billed()).toEqual({ requests: batch.run_ids.length, twice: 0 });
});

test.each([-20, 20])('an unanswered create is found after its clock jumped %d minutes', async (minutes) => {
  house.simulator.control.addRule({
    op: 'create',
    match: { times: 1 },
    action: { type: 'commitThenDrop' },
  });
  const batch = await submitTexts(2);
  const worker = house.worker();
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
  await house.rows(
    `update provider_batch set provider_sent_at = provider_sent_at + $1 * interval '1 minute'`,
    [minutes],
  );
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted' });
  await house.drive(worker, { hasten: true });
  expect(billed()).toEqual({ requests: batch.run_ids.length, twice: 0 });
});

test('a lease ended by a clock jump of the database starts a full quarantine, measured by both clocks', async () => {
  house.simulator.control.addRule({ op: 'create', match: { times: 1 }, action: { type: 'dropBefore' } });
  await submitTexts(2);
  const reconcile = {
    ...house.worker().settings.reconcile,
    quarantine_ms: 10 * MINUTE_MS,
    search_interval_ms: 1_000,
  };
  const worker = house.worker({ settings: { reconcile } });
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  await house.rows(`update provider_batch set state = 'submitting', lease_until = app_now() - interval '1 minute',
                           submit_started_at = submit_started_at - interval '1 hour', next_due_at = app_now()`);
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'unknown' });
  const [row] = await house.rows<{ left: number }>(
    'select extract(epoch from next_due_at - app_now())::float8 as left from provider_batch',
  );
  expect(row?.left).toBeGreaterThan(9 * 60);
  for (let search = 0; search < 5; search++) {
    await house.hasten();
    expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'not found yet' });
  }
  skewBy(10 * MINUTE_MS);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'not found yet' });
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'withdrawn' });
});

/** A worker that records its signals. */
function listening(worker: FlowDeps): { readonly worker: FlowDeps; readonly rung: Signal[] } {
  const rung: Signal[] = [];
  const ring: FlowDeps['bell']['ring'] = (signals) => {
    rung.push(...signals);
    return Promise.resolve();
  };
  return { worker: { ...worker, bell: { ring } }, rung };
}

test.each([
  [20, 20],
  [600, 30],
])('with a look every %d s, a created batch is first looked at after %d s', async (every, first) => {
  house.simulator.control.configure({ latency: 'fixed:10000000' });
  await submitTexts(1);
  const poll_interval_ms = every * 1_000;
  const poll = { poll_interval_ms, poll_interval_ms_max: poll_interval_ms, missing_grace_ms: 0 };
  const { worker, rung } = listening(house.worker({ settings: { poll } }));
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  const [row] = await house.rows<{ id: string; wait: number }>(
    'select id, extract(epoch from next_due_at - submitted_at)::float8 as wait from provider_batch',
  );
  expect(row?.wait).toBeCloseTo(first, 2);
  expect(rung).toContainEqual({ kind: 'poll', id: row?.id });
});

test('a created batch whose booking fails stays in doubt and is found: it is not booked past its lease', async () => {
  // The first booking fails independently of the lease.
  await house.rows('create sequence bookings');
  await house.rows(`
    create function fail_first_booking() returns trigger language plpgsql as $$
    begin
      if nextval('bookings') = 1 then raise exception 'the disk is full'; end if;
      return new;
    end $$`);
  await house.rows(`
    create trigger fail_first_booking before update on provider_batch
       for each row when (new.state = 'submitted') execute function fail_first_booking()`);
  const batch = await submitTexts(2);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await expect(submitProviderBatch(worker)).rejects.toThrow('the disk is full');
  expect(await house.rows('select state, provider_id from provider_batch')).toEqual([
    { state: 'submitting', provider_id: null },
  ]);
  await house.bury(worker);
  await house.drive(house.worker(), { hasten: true });
  expect(billed()).toEqual({ requests: batch.run_ids.length, twice: 0 });
});

/** A worker whose create is answered only after `meanwhile`, when its batch was taken over. */
function overtaken(meanwhile: () => Promise<unknown>): FlowDeps {
  const worker = house.worker();
  return {
    ...worker,
    provider: {
      ...worker.provider,
      async createBatch(body, asked) {
        const outcome = await worker.provider.createBatch(body, asked);
        await house.rows(
          `update provider_batch set lease_until = app_now() - interval '1 minute', next_due_at = app_now()`,
        );
        await meanwhile();
        return outcome;
      },
    },
  };
}

test('an overtaken sender books its late answer: the batch in doubt takes it at once', async () => {
  const batch = await submitTexts(3);
  const other = house.worker();
  const { worker, rung } = listening(overtaken(() => reconcileSubmission(other)));
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted late' });
  const [row] = await house.rows<{ id: string }>('select id, state from provider_batch');
  expect(row).toMatchObject({ state: 'submitted' });
  expect(rung).toContainEqual({ kind: 'poll', id: row?.id });
  await house.drive(other, { hasten: true });
  expect(billed()).toEqual({ requests: batch.run_ids.length, twice: 0 });
});

/** Takes over the submission of a sender and gives it up, so that its steps are sent again. */
async function withdraw(other: FlowDeps): Promise<void> {
  for (const outcome of ['unknown', 'not found yet', 'withdrawn']) {
    expect(await reconcileSubmission(other)).toMatchObject({ outcome });
    await house.hasten();
  }
}

test('an overtaken sender whose steps were sent again books and cancels its batch', async () => {
  house.simulator.control.configure({ latency: 'fixed:10000000' });
  house.simulator.control.addRule({ op: 'list', action: { type: 'omit' } });
  await submitTexts(3);
  const other = house.worker();
  const worker = overtaken(() => withdraw(other));
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'orphan', alarm: true });
  const [first] = house.simulator.control.batches();
  expect(first?.status).toBe('canceling');
  const [given] = await house.rows<{ nonce: string; of: string }>(
    'select nonce, provider_batch_id as of from doubted_submission',
  );
  expect(
    await house.rows(`select provider_id, error as detail from provider_batch where state = 'orphan_paid'`),
  ).toEqual([
    { provider_id: first?.id, detail: { ...given, proven: true, reason: expect.any(String) as string } },
  ]);
});

test('a batch whose cancel got no answer is left to the hunt, which books it', async () => {
  const { control } = house.simulator;
  control.configure({ latency: 'fixed:10000000' });
  control.addRule({ op: 'list', match: { times: 3 }, action: { type: 'omit' } });
  control.addRule({ op: 'cancel', match: { times: 1 }, action: { type: 'status', code: 529 } });
  await submitTexts(3);
  const other = house.worker();
  const worker = overtaken(() => withdraw(other));
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({
    outcome: 'orphan',
    alarm: true,
    reason: expect.stringContaining('its cancel got no answer') as string,
  });
  const orphans = `select provider_id from provider_batch where state = 'orphan_paid'`;
  expect(await house.rows(orphans)).toEqual([]);
  const [first] = control.batches();
  await submitProviderBatch(other);
  await huntOrphans({ ...other, settings: { ...other.settings, workspace_is_ours: true } });
  expect(await house.rows(orphans)).toEqual([{ provider_id: first?.id }]);
  expect(control.batches()[0]?.status).toBe('canceling');
});

test('in a shared workspace a foreign batch of our size that runs for hours does not delay answered steps', async () => {
  const { control } = house.simulator;
  control.configure({ latency: 'fixed:10000000' });
  const strangers = new Anthropic({ apiKey: 'test-key', baseURL: house.simulator.apiUrl }).messages.batches;
  const messages = [{ role: 'user' as const, content: 'theirs' }];
  const make = () =>
    strangers.create({
      requests: [0, 1, 2].map((index) => ({
        custom_id: `theirs-${index}`,
        params: { model: 'claude-haiku-4-5', max_tokens: 100, messages },
      })),
    });
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const batch = await submitTexts(3);
  const { worker, rung } = listening(house.worker({ settings: { workspace_is_ours: false } }));
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  const [ours] = control.batches();
  const theirs = await make();
  const ended = await make();
  await control.command(ended.id, 'expire');
  // A twin held our own batch for a while, so the foreign batch is adopted.
  await house.rows('update provider_batch set not_ours = $1', [[ours?.id, ended.id]]);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted', provider_id: theirs.id });
  await control.command(ours?.id ?? '', 'end');
  const resultsRead = () =>
    control.journal(0, 10_000).entries.filter((entry) => entry.op === 'results').length;
  rung.length = 0;
  expect(await huntOrphans(worker)).toMatchObject({ corrected: 1, booked: 0 });
  expect(rung).toEqual([{ kind: 'poll', id: expect.any(String) as string }]);
  await house.drive(worker, { hasten: true });
  expect(await house.runsOf(batch.id)).toMatchObject(batch.run_ids.map(() => ({ stop_reason: 'end_turn' })));
  expect(billed()).toEqual({ requests: 3, twice: 0 });
  expect(control.batches().find(({ id }) => id === theirs.id)?.status).toBe('in_progress');
  // An ended foreign batch is read three times at most, in any number of hunts.
  for (let hunt = 0; hunt < 4; hunt++) await huntOrphans(worker);
  const before = resultsRead();
  await huntOrphans(worker);
  expect(resultsRead()).toBe(before);
});
