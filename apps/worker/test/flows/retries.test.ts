import type {} from '../../../../test/global-setup.ts';
import { auditInvariants, type ClaimedProviderBatch } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { weighOutages } from '../../src/flows/ingest-results/weigh-outages.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const BAD = 'a request that fails for ever';

/** Lets every request whose input holds {@link BAD} fail. */
function failForEver(error_type = 'overloaded_error', message = 'Overloaded'): void {
  house.simulator.control.addRule({
    id: 'for ever',
    op: 'request',
    match: { contains: BAD },
    outcome: { type: 'errored', error_type, message },
  });
}

const inputs = (good: number, bad: number) => [
  ...Array.from({ length: good }, () => ({ input: 'Say something.' })),
  ...Array.from({ length: bad }, () => ({ input: BAD })),
];

/** Lets every request fail once; later requests succeed. */
function failOnce(): void {
  house.simulator.control.addRule({
    id: 'once',
    op: 'request',
    match: {},
    outcome: { type: 'errorTimesThenSucceed', times: 1, error_type: 'api_error', message: 'It broke.' },
  });
}

interface Failing {
  readonly state: string;
  readonly attempt: number;
  readonly failures: number;
  readonly failing: boolean;
  readonly last_error: object | null;
  readonly waits_ms: number | null;
}

const failingOf = (batchId: string) =>
  house.rows<Failing>(
    `select state, attempt, failures, failing_since is not null as failing, last_error,
            round(extract(epoch from next_attempt_at - failing_since) * 1000)::int as waits_ms
       from run where batch_id = $1 order by ordinal`,
    [batchId],
  );

const outages = () =>
  house.rows<object>('select credential, model, outages, ended_at is not null as over from model_outage');
const failedLines = () =>
  house.rows<object>('select error_type, sum(lines)::int as lines from failed_lines group by 1 order by 1');

const OVERLOADED = { type: 'overloaded_error', message: 'Overloaded' };
const HAIKU = 'anthropic/claude-haiku-4-5';
const RETRY = { attempts_max: 4, retry_delay_ms: 5_000, retry_delay_ms_max: 60_000 };
const SLOW = { ...RETRY, outage_delay_ms: 300_000, outage_ms_max: 7_200_000 };

/** Sends due requests and applies their results, once. */
async function round(worker: FlowDeps): Promise<FlowReport> {
  await house.hasten();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  for (let looks = 1; ; looks++) {
    await house.hasten();
    await pollProviderBatches(worker);
    const report = await ingestResults(worker);
    if (report.worked || looks === 1_000) return report;
    // Only the provider has work: let its timers run.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('50 of 300 requests that fail for ever', () => {
  test('say so at each attempt, and end their runs after the usual attempts', async () => {
    failForEver();
    const batch = await house.submit(inputs(250, 50));
    const worker = house.worker({ settings: { retry: SLOW, chunk_lines: 100 } });
    const report = await round(worker);
    const wire = (prefix: string) => `${prefix}-[0-9a-f-]{36}`;
    const example = `${wire('run')} of ${wire('job')}`;
    expect(report).toMatchObject({
      outcome: 'ingested',
      warning: true,
      failed: 50,
      failures: expect.stringMatching(
        new RegExp(`^50 × overloaded_error: Overloaded \\(${example}, ${example}, ${example}\\)$`),
      ) as string,
    });
    const waiting = await failingOf(batch.id);
    expect(waiting.slice(0, 250).every((run) => run.state === 'completed' && !run.failing)).toBe(true);
    // The last chunk alone looked like half an outage; the file shows that it is none.
    expect(waiting[299]).toEqual({
      ...{ state: 'ready', attempt: 2, failures: 1, failing: true, last_error: OVERLOADED, waits_ms: 5_000 },
    });
    await round(worker);
    // A file of failed retries alone proves nothing.
    expect(await outages()).toEqual([]);
    expect((await failingOf(batch.id))[299]).toMatchObject({ attempt: 3, failures: 2 });
    await house.drive(worker, { hasten: true });
    for (const run of (await house.runsOf(batch.id)).slice(250)) {
      expect(run).toMatchObject({
        state: 'failed',
        stop_reason: 'provider_error',
        attempt: 4,
        error: OVERLOADED,
      });
    }
    expect(await failedLines()).toEqual([{ error_type: 'overloaded_error', lines: 200 }]);
    expect(await auditInvariants(house.database.db)).toEqual([]);
  });
});

describe('an outage', () => {
  test('is judged by fresh requests, uses up no attempt, and is over with the first answers', async () => {
    failOnce();
    const batch = await house.submit(inputs(12, 0).map((_, n) => ({ input: `Say ${n}.` })));
    const worker = house.worker({ settings: { retry: SLOW } });
    await round(worker);
    expect(await outages()).toEqual([{ credential: 'default', model: HAIKU, outages: 1, over: false }]);
    for (const run of await failingOf(batch.id)) {
      expect(run).toMatchObject({ attempt: 2, failures: 0, failing: true, waits_ms: 300_000 });
    }
    await round(worker);
    for (const run of await failingOf(batch.id)) {
      expect(run).toMatchObject({ state: 'completed', failing: false, last_error: null, waits_ms: null });
    }
    expect(await outages()).toEqual([{ credential: 'default', model: HAIKU, outages: 1, over: true }]);
    // The next one is counted.
    await house.submit(inputs(12, 0).map((_, n) => ({ input: `Say ${n} again.` })));
    await round(worker);
    expect(await outages()).toEqual([{ credential: 'default', model: HAIKU, outages: 2, over: false }]);
  });

  test('counts attempts from two hours after the first failure, and ends the run with the words of the provider', async () => {
    failForEver('api_error', 'Internal server error');
    const batch = await house.submit(inputs(0, 12));
    const worker = house.worker({ settings: { retry: SLOW } });
    for (let attempt = 1; attempt <= 6; attempt++) await round(worker);
    expect((await failingOf(batch.id))[0]).toMatchObject({ state: 'ready', attempt: 7, failures: 0 });
    await house.rows(`update run set failing_since = failing_since - interval '2 hours'`);
    for (let failures = 1; failures < SLOW.attempts_max; failures++) {
      await round(worker);
      expect((await failingOf(batch.id))[0]).toMatchObject({ state: 'ready', failures });
    }
    await round(worker);
    for (const run of await house.runsOf(batch.id)) {
      expect(run).toMatchObject({
        state: 'failed',
        stop_reason: 'provider_error',
        error: { type: 'api_error', message: 'Internal server error' },
      });
    }
  });

  test('of one model does not excuse failures of another, in the same file', async () => {
    failForEver();
    const other = 'anthropic/claude-sonnet-4-5';
    const batch = await house.submit([
      ...inputs(0, 12),
      ...Array.from({ length: 12 }, () => ({ input: 'Say something.', model: other })),
      { input: BAD, model: other },
    ]);
    await round(house.worker({ settings: { retry: SLOW } }));
    const runs = await failingOf(batch.id);
    expect(runs[0]).toMatchObject({ failures: 0, waits_ms: 300_000 });
    expect(runs[24]).toMatchObject({ failures: 1, waits_ms: 5_000 });
    expect(await outages()).toMatchObject([{ model: HAIKU }]);
  });

  test('that fresh requests have proven excuses retries and later requests of other files', async () => {
    failForEver();
    await house.submit(inputs(0, 12));
    const worker = house.worker({ settings: { retry: SLOW } });
    await round(worker);
    const late = await house.submit(inputs(0, 1));
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await pollProviderBatches(worker);
    await ingestResults(worker);
    expect(await failingOf(late.id)).toMatchObject([{ failures: 0, waits_ms: 300_000 }]);
    // Long after the last proof it excuses nothing.
    await house.rows(`update model_outage set seen_at = seen_at - interval '2 hours'`);
    await round(worker);
    expect(await failingOf(late.id)).toMatchObject([{ failures: 1 }]);
  });
});

test('a run between attempts forgets its failure with its step, not before', async () => {
  house.simulator.control.addRule({
    op: 'request',
    match: {},
    outcome: { type: 'errorTimesThenSucceed', times: 2, error_type: 'api_error', message: 'It broke.' },
  });
  const batch = await house.submit([{ input: 'Say something.' }]);
  const worker = house.worker({ settings: { retry: SLOW } });
  await round(worker);
  await house.rows(`update run set failing_since = failing_since - interval '1 hour'`);
  await round(worker);
  const [run] = await failingOf(batch.id);
  expect(run).toMatchObject({ state: 'ready', failures: 2, last_error: { type: 'api_error' } });
  expect(run?.waits_ms).toBeGreaterThanOrEqual(3_600_000);
  await round(worker);
  expect(await failingOf(batch.id)).toMatchObject([{ state: 'completed', failing: false }]);
  expect(await failedLines()).toEqual([{ error_type: 'api_error', lines: 2 }]);
});

test('in a part of a chunk every failure that may pass counts as an outage', async () => {
  const outcome = {
    kind: 'errored',
    error_class: 'retryable',
    error_type: 'api_error',
    message: '',
  } as const;
  const key = { run_id: 'r', number: 1, attempt: 1 };
  const line = { kind: 'line', number: 1, text: '', terminated: true } as const;
  const entries = new Map([['r', { key, outcome, line, accountTrouble: null }]]);
  const weighed = await weighOutages(
    house.worker(),
    { credential: 'default' } as ClaimedProviderBatch,
    entries,
    new Map(),
    false,
  );
  expect(weighed.entries.get('r')?.outcome).toEqual({ ...outcome, error_class: 'outage' });
  expect(weighed.evidence.size).toBe(0);
});
