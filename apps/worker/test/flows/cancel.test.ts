import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import type { ToolPort } from '../../../../test/runners-of.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { call, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    simulator: { settings: { cancel: { delay_ms: 0 } } },
    modules: [
      {
        name: 'act',
        description: 'Does something in the world.',
        input_schema: { type: 'object' },
        side_effects: 'none',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ],
  });
});
afterEach(() => {
  vi.useRealTimers();
  return house.close();
});

/** Submits a batch of runs that end with their first answer. */
function submitTexts(count: number, text: string): Promise<SubmittedBatch> {
  return house.submit(Array.from({ length: count }, (_, index) => ({ input: `${text} ${index}` })));
}

/** Sends ready requests without getting an answer. */
async function sentInDoubt(worker: FlowDeps): Promise<void> {
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
}

const ACTING: ToolPort = {
  runCalls: (calls) =>
    Promise.resolve(
      calls.map(({ call_id }) => ({
        call_id,
        status: 'succeeded' as const,
        result: 'done',
        duration_ms: 1,
        started: true,
      })),
    ),
};

/** Polls until the provider has ended the batch, a moment after it took it. */
async function pollUntilEnded(worker: FlowDeps): Promise<void> {
  do await pollProviderBatches(worker);
  while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
}

/** Steps that bring a batch of three runs to a stage, each after the one before. */
const WAYS: readonly (readonly [string, (worker: FlowDeps) => Promise<unknown>])[] = [
  ['ready', () => Promise.resolve()],
  ['building', composeProviderBatch],
  ['submitted', submitProviderBatch],
  ['ended', pollUntilEnded],
  ['acting', ingestResults],
];

async function bringTo(stage: string, worker: FlowDeps): Promise<void> {
  for (const [name, way] of WAYS) {
    await way(worker);
    if (name === stage) return;
  }
}

function submitWork(): Promise<SubmittedBatch> {
  return house.submit(
    Array.from({ length: 3 }, (_, index) => ({ input: call('act', { what: index }), tools: ['act'] })),
  );
}

async function stateOf(batch: SubmittedBatch): Promise<string | undefined> {
  const [row] = await house.rows<{ state: string }>('select state from batch where id = $1', [batch.id]);
  return row?.state;
}

/** Reads the cost billed by the provider, and the cost booked. */
async function money(): Promise<{ billed: number; booked: number; requests: number; twice: number }> {
  const { totals, repeated } = house.simulator.control.ledger();
  const [row] = await house.rows<{ usd: number }>('select sum(cost_nanousd)::float8 / 1e9 as usd from step');
  return {
    billed: Math.round(totals.usd * 1e9),
    booked: Math.round((row?.usd ?? 0) * 1e9),
    requests: totals.requests,
    twice: repeated.content_hashes,
  };
}

test.each([
  ['ready', 0],
  ['building', 0],
  ['submitted', 0],
  ['ended', 3],
  ['acting', 3],
])(
  'a batch cancelled while its runs are %s: every run ends cancelled and paid answers are kept',
  async (stage, answers) => {
    if (stage === 'submitted')
      house.simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } });
    house.simulator.control.configure({ cancel: { delay_ms: 0, in_work: 0 } });
    const worker = house.worker({ tools: ACTING });
    const batch = await submitWork();
    await bringTo(stage, worker);
    await house.cancel(batch.id);
    await house.drive(worker, { hasten: true });

    expect(await stateOf(batch)).toBe('cancelled');
    expect(await house.runsOf(batch.id)).toMatchObject(
      batch.run_ids.map(() => ({ state: 'cancelled', stop_reason: 'cancelled', step_number: 1 })),
    );
    const kept = await house.rows(`select 1 from message where role = 'assistant' and run_id is not null`);
    expect(kept).toHaveLength(answers);
    const { billed, booked, requests, twice } = await money();
    expect({ requests, twice, booked }).toEqual({ requests: answers, twice: 0, booked: billed });
    expect(await house.rows('select sum(cancelled)::int as cancelled from batch_tally')).toEqual([
      { cancelled: 3 },
    ]);
    // No due work is left.
    expect(await house.rows('select 1 from run_chunk')).toEqual([]);
    expect(
      await house.rows(
        `select state from provider_batch where next_due_at is not null or lease_owner is not null`,
      ),
    ).toEqual([]);
    expect(await house.rows('select 1 from conversation where run_id is not null')).toEqual([]);
  },
);

test('a batch at the provider is cancelled there, and started requests are paid, booked and kept', async () => {
  const { control } = house.simulator;
  control.addRule({ op: 'create', action: { type: 'latency', ms: 3_600_000 } });
  control.configure({ cancel: { delay_ms: 0, in_work: 0.5, started_succeed: 1 } });
  const batch = await house.submit(
    Array.from({ length: 40 }, (_, index) => ({ input: `question ${index}` })),
  );
  const worker = house.worker();
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await house.drive(worker, { hasten: true });

  expect(control.batches()).toMatchObject([{ status: 'ended', cancel_initiated_at_ms: expect.any(Number) }]);
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'cancelled')).toBe(true);
  const { billed, booked, requests, twice } = await money();
  expect(requests).toBeGreaterThan(5);
  expect(requests).toBeLessThan(35);
  expect({ booked, twice }).toEqual({ booked: billed, twice: 0 });
  const kept = await house.rows(`select 1 from message where role = 'assistant' and run_id is not null`);
  expect(kept).toHaveLength(requests);
});

/** Creates two provider batches of one batch that is about to be cancelled. */
async function cancelledInTwo(): Promise<void> {
  const { control } = house.simulator;
  control.addRule({ op: 'create', action: { type: 'neverEnds' } });
  const batch = await submitTexts(2, 'never mind'.repeat(500));
  const worker = house.worker({ settings: { body_bytes_max: 9_500 } });
  for (const _half of [1, 2]) await bringTo('submitted', worker);
  expect(await house.rows('select state from provider_batch')).toHaveLength(2);
  await house.cancel(batch.id);
}

const holdersOf = (table: string): Promise<unknown> =>
  house.rows(`select lease_owner from ${table} where lease_owner is not null`);

test('a provider batch keeps its lease while it is being cancelled upstream', async () => {
  await cancelledInTwo();
  const real = house.worker().provider;
  const lease_duration_ms = 30_000;
  vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] });
  const provider: ProviderPort = {
    ...real,
    async cancelBatch(id) {
      const until = async (): Promise<Date> =>
        (
          await house.rows<{ until: Date }>(
            `select lease_until as until from provider_batch where lease_owner is not null`,
          )
        )[0]!.until;
      const claimed = await until();
      await vi.advanceTimersByTimeAsync(lease_duration_ms / 3);
      // Each further look would advance the clock by an interval.
      await expect.poll(until, { interval: 0 }).not.toEqual(claimed);
      return real.cancelBatch(id);
    },
  };
  expect(await cancelBatch(house.worker({ provider, lease_duration_ms }))).toMatchObject({
    upstream: 2,
  });
});

test('a provider batch taken over while it is being cancelled blocks no other', async () => {
  await cancelledInTwo();
  const real = house.worker().provider;
  let asked = 0;
  const provider: ProviderPort = {
    ...real,
    async cancelBatch(id) {
      asked += 1;
      if (asked === 1)
        await house.rows(
          `update provider_batch set lease_epoch = lease_epoch + 1, lease_owner = 'other' where lease_owner is not null`,
        );
      return real.cancelBatch(id);
    },
  };
  expect(await cancelBatch(house.worker({ provider }))).toMatchObject({ upstream: 1 });
  expect(asked).toBe(2);
  expect(await house.rows('select state, lease_owner from provider_batch order by state')).toEqual([
    { state: 'cancelling', lease_owner: null },
    { state: 'submitted', lease_owner: 'other' },
  ]);
});

test('a failed cancel or finish releases its claims', async () => {
  await cancelledInTwo();
  const provider: ProviderPort = {
    ...house.worker().provider,
    cancelBatch: () => Promise.reject(new Error('cut')),
  };
  await expect(cancelBatch(house.worker({ provider }))).rejects.toThrow('cut');
  expect(await holdersOf('provider_batch')).toEqual([]);

  await house.rows(`update batch set state = 'running', next_due_at = app_now()`);
  const hooks = (point: string): Promise<void> =>
    point === 'finish.before_commit' ? Promise.reject(new Error('cut')) : Promise.resolve();
  await expect(finishBatch(house.worker({ hooks }))).rejects.toThrow('cut');
  expect(await holdersOf('batch')).toEqual([]);
});

test('a provider that ignores the cancel only delays the end', async () => {
  house.simulator.control.configure({ latency: 'fixed:300' });
  house.simulator.control.addRule({ op: 'cancel', action: { type: 'cancelIgnored' } });
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await house.drive(worker, { hasten: true, rounds: 2_000 });
  expect(await stateOf(batch)).toBe('cancelled');
  expect((await money()).requests).toBe(3);
});

/** Runs the cancel flow at its next due time. */
async function look(worker: FlowDeps): Promise<FlowReport> {
  await house.rows('update batch set next_due_at = app_now() where next_due_at > app_now()');
  return cancelBatch(worker);
}

/** Waits until no decision from before the cancel can still be committed. */
const settle = (): Promise<unknown> =>
  house.rows(`update batch set cancel_requested_at = cancel_requested_at - interval '1 minute'`);

test('a batch whose cancels are all sent is looked at once a minute, after earlier decisions are committed', async () => {
  house.simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } });
  house.simulator.control.addRule({ op: 'cancel', action: { type: 'cancelIgnored' } });
  const batch = await submitWork();
  const worker = house.worker();
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  expect(await look(worker)).toMatchObject({ upstream: 1, again_in_ms: 5_000 });
  expect(await look(worker)).toMatchObject({ upstream: 0, again_in_ms: 5_000 });
  await settle();
  expect(await look(worker)).toMatchObject({ upstream: 0, again_in_ms: 60_000 });
  const [row] = await house.rows<{ seconds: number }>(
    'select extract(epoch from next_due_at - app_now())::float8 as seconds from batch',
  );
  expect(row!.seconds).toBeGreaterThan(50);
});

test('a batch whose requests may come back unsent is looked at every five seconds, until its runs are cancelled', async () => {
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'dropBefore' } });
  const batch = await submitWork();
  const worker = house.worker();
  await sentInDoubt(worker);
  await house.cancel(batch.id);
  await settle();
  const isState = async (state: string): Promise<boolean> =>
    (await house.rows('select 1 from provider_batch where state = $1', [state])).length > 0;
  while (await isState('unknown')) {
    expect(await look(worker)).toMatchObject({ cancelled: 0, again_in_ms: 5_000 });
    await house.hasten();
    await reconcileSubmission(worker);
  }
  expect(await isState('building')).toBe(true);
  expect(await look(worker)).toMatchObject({ cancelled: 0, again_in_ms: 5_000 });
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'withdrawn' });
  expect(await look(worker)).toMatchObject({ cancelled: 3, state: 'cancelled' });
});

test('a batch that the provider did not cancel on request is cancelled again after five seconds', async () => {
  house.simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } });
  const batch = await submitWork();
  const worker = house.worker();
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await settle();
  const provider: ProviderPort = {
    ...worker.provider,
    cancelBatch: () => Promise.resolve({ outcome: 'not_found' }),
  };
  expect(await look({ ...worker, provider })).toMatchObject({ upstream: 0, again_in_ms: 5_000 });
  expect(await look(worker)).toMatchObject({ upstream: 1, again_in_ms: 5_000 });
});

test('if the provider refuses a cancel because the batch has just ended, its answers are ingested', async () => {
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'cancelled')).toBe(true);
  const { requests, billed, booked } = await money();
  expect({ requests, booked }).toEqual({ requests: 3, booked: billed });
});

test('a batch that the provider loses while it is being cancelled is given up, and ends', async () => {
  house.simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } });
  house.simulator.control.addRule({ op: 'cancel', action: { type: 'cancelIgnored' } });
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await expect(house.drive(worker, { hasten: true, rounds: 10 })).rejects.toThrow(/not ended/);
  expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'cancelling' }]);
  house.simulator.control.addRule({ op: 'retrieve', action: { type: 'status', code: 404 } });
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
});

test('a create in doubt is resolved before its batch ends as cancelled: provider work is paid once and booked', async () => {
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'unknown' }]);
  await house.cancel(batch.id);
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
  const { requests, twice, billed, booked } = await money();
  expect({ requests, twice, booked }).toEqual({ requests: 3, twice: 0, booked: billed });
});

test('a batch that may hold the requests of another, both in doubt and of equal size, is not cancelled upstream', async () => {
  const { control } = house.simulator;
  control.configure({ latency: 'fixed:10000000' });
  control.addRule({ op: 'create', match: { nth: [1, 2] }, action: { type: 'commitThenDrop' } });
  const worker = house.worker();
  const stopped = await submitTexts(3, 'stop');
  await sentInDoubt(worker);
  const other = await submitTexts(3, 'go on');
  await sentInDoubt(worker);
  // The later batch searches first, and takes the earlier one's.
  await house.rows(`update provider_batch set next_due_at = app_now() - interval '1 minute' where id =
                      (select id from provider_batch order by submit_started_at desc limit 1)`);
  for (let search = 0; search < 2; search++)
    expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted' });

  await house.cancel(stopped.id);
  expect(await cancelBatch(worker)).toMatchObject({ upstream: 0 });
  expect(control.batches().map(({ cancel_initiated_at_ms }) => cancel_initiated_at_ms)).toEqual([null, null]);
  for (const { id } of control.batches()) await control.command(id, 'end');
  await house.drive(worker, { hasten: true });
  expect(await stateOf(stopped)).toBe('cancelled');
  expect((await house.runsOf(other.id)).map((run) => run.stop_reason)).toEqual([
    'end_turn',
    'end_turn',
    'end_turn',
  ]);
  const { twice, billed, booked } = await money();
  expect({ twice, booked }).toEqual({ twice: 0, booked: billed });
});

test.each([
  ['is cancelled at the provider where only Nightshift creates batches', true, 1],
  ['is left alone where others create batches too', false, 0],
])('an adopted batch without a twin %s', async (_what, workspace_is_ours, upstream) => {
  house.simulator.control.configure({ latency: 'fixed:10000000' });
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const worker = house.worker({ settings: { workspace_is_ours } });
  const batch = await submitTexts(3, 'stop');
  await sentInDoubt(worker);
  expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted' });
  await house.cancel(batch.id);
  expect(await cancelBatch(worker)).toMatchObject({ upstream });
});

test('an adopted batch is cancelled at the provider if all its possible owners are being cancelled', async () => {
  const { control } = house.simulator;
  control.configure({ cancel: { delay_ms: 0, in_work: 0 } });
  control.addRule({
    op: 'create',
    match: { nth: [1, 2] },
    actions: [{ type: 'neverEnds' }, { type: 'commitThenDrop' }],
  });
  const worker = house.worker({ settings: { requests_max: 250 } });
  const batch = await submitTexts(500, 'stop');
  for (let half = 0; half < 2; half++) await sentInDoubt(worker);
  await house.hasten();
  for (let half = 0; half < 2; half++)
    expect(await reconcileSubmission(worker)).toMatchObject({ outcome: 'adopted' });

  await house.cancel(batch.id);
  expect(await cancelBatch(worker)).toMatchObject({ upstream: 2 });
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
  expect(await money()).toEqual({ requests: 0, twice: 0, billed: 0, booked: 0 });
});

test('a create in doubt that never arrived is not sent again for a batch being cancelled', async () => {
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'dropBefore' } });
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
  expect(house.simulator.control.batches()).toEqual([]);
});

test('a provider batch shared with another batch is not cancelled there, and the other one completes', async () => {
  house.simulator.control.configure({ latency: 'fixed:300' });
  const cancelled = await submitWork();
  const other = await house.submit([{ input: 'stay' }, { input: 'stay too' }]);
  const worker = house.worker({ tools: ACTING });
  await bringTo('submitted', worker);
  expect(await house.rows('select request_count from provider_batch')).toEqual([{ request_count: 5 }]);
  await house.cancel(cancelled.id);
  await house.drive(worker, { hasten: true, rounds: 2_000 });
  expect(await stateOf(cancelled)).toBe('cancelled');
  expect(await stateOf(other)).toBe('completed');
  expect(house.simulator.control.batches()[0]?.cancel_initiated_at_ms).toBeNull();
});

test('runs that share an unsent provider batch with a cancelled batch go on without it', async () => {
  const cancelled = await submitWork();
  const other = await house.submit([{ input: 'stay' }]);
  const worker = house.worker({ tools: ACTING });
  await bringTo('building', worker);
  await house.cancel(cancelled.id);
  await house.drive(worker, { hasten: true });
  expect(await stateOf(cancelled)).toBe('cancelled');
  expect(await stateOf(other)).toBe('completed');
  expect((await money()).requests).toBe(1);
});

test('a batch waiting for a retry is given up at once, regardless of a long retry-after', async () => {
  const { control } = house.simulator;
  control.addRule({
    op: 'create',
    action: { type: 'status', code: 429, headers: { 'retry-after': '3600' } },
  });
  const batch = await submitTexts(3, 'never answered');
  const worker = house.worker();
  await bringTo('submitted', worker);
  await house.cancel(batch.id);
  await cancelBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'withdrawn' });
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
});

test('a refusal that comes after the cancel postpones nothing', async () => {
  const { control } = house.simulator;
  control.addRule({
    op: 'create',
    action: { type: 'status', code: 429, headers: { 'retry-after': '3600' } },
  });
  const batch = await submitTexts(3, 'never answered');
  const worker = house.worker({
    hooks: async (point) => {
      if (point === 'submit.after_post') await house.cancel(batch.id);
    },
  });
  await bringTo('submitted', worker);
  expect(await house.rows('select 1 from provider_batch where next_due_at <= app_now()')).toHaveLength(1);
});

test('a cancel just before a send is not overtaken by it', async () => {
  const batch = await submitTexts(3, 'never sent');
  const worker = house.worker();
  const { leases } = worker;
  const late: FlowDeps = {
    ...worker,
    leases: {
      ...leases,
      extend: async (lease, durationMs) => {
        await house.cancel(batch.id);
        return leases.extend(lease, durationMs);
      },
    },
  };
  await bringTo('submitted', late);
  await house.drive(worker, { hasten: true });
  expect(await stateOf(batch)).toBe('cancelled');
  expect((await money()).requests).toBe(0);
});

test.each(['ready', 'submitted', 'acting'])(
  'a run of another batch that waits for the conversation starts when the run that is %s was cancelled',
  async (stage) => {
    if (stage === 'submitted') {
      house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'neverEnds' } });
      house.simulator.control.configure({ cancel: { in_work: 0 } });
    }
    const worker = house.worker({ tools: ACTING });
    const first = await house.submit([{ input: call('act', {}), tools: ['act'] }]);
    const second = await house.submit([{ input: 'And then?', agent_id: first.agent_ids[0]! }]);
    await bringTo(stage, worker);
    expect(await house.runsOf(second.id)).toMatchObject([{ state: 'queued' }]);
    await house.cancel(first.id);
    await house.drive(worker, { hasten: true });
    expect(await stateOf(first)).toBe('cancelled');
    expect(await stateOf(second)).toBe('completed');
    // The open call of the cancelled run is not shown to the provider, which would refuse the conversation for ever.
    expect(await house.runsOf(second.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  },
);

test('a waiting run that is cancelled itself leaves the conversation to the next', async () => {
  const worker = house.worker({ tools: ACTING });
  const first = await house.submit([{ input: 'one' }]);
  const agent_id = first.agent_ids[0]!;
  const second = await house.submit([{ input: 'two', agent_id }]);
  const third = await house.submit([{ input: 'three', agent_id }]);
  await house.cancel(second.id);
  await house.drive(worker, { hasten: true });
  expect(await house.runsOf(second.id)).toMatchObject([{ state: 'cancelled', stop_reason: 'cancelled' }]);
  expect([await stateOf(first), await stateOf(second), await stateOf(third)]).toEqual([
    'completed',
    'cancelled',
    'completed',
  ]);
  const said = await house.rows<{ content: { text: string }[] }>(
    `select content from message where role = 'user' order by seq`,
  );
  expect(said.map((message) => message.content[0]?.text)).toEqual(['one', 'three']);
});

test('a cancel after the end changes nothing', async () => {
  const batch = await submitWork();
  const worker = house.worker({ tools: ACTING });
  await house.drive(worker);
  await house.cancel(batch.id);
  expect(await stateOf(batch)).toBe('completed');
});
