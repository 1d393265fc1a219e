import type {} from '../../../../test/global-setup.ts';
import { readGauges } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { reconcileSubmission } from '../../src/flows/reconcile-submission/reconcile-submission.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { createLeaseKeeper } from '../../src/leases/keeper.ts';
import { call, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

/** Submits a batch of runs that end with their first answer, each with its own text. */
function submitTexts(
  count: number,
  text = (index: number): string => `text ${index}`,
): Promise<SubmittedBatch> {
  return house.submit(Array.from({ length: count }, (_, index) => ({ input: text(index) })));
}

/** Reads the provider's books: the number of requests, and of requests billed twice. */
function billed(): { requests: number; twice: number } {
  const { totals, repeated } = house.simulator.control.ledger();
  return { requests: totals.requests, twice: repeated.content_hashes };
}

function requestsTo(op: string): { path: string; status: number | null }[] {
  return house.simulator.control.journal(0, 10_000).entries.filter((entry) => entry.op === op);
}

async function expectAllCompleted(batch: SubmittedBatch): Promise<void> {
  const runs = await house.runsOf(batch.id);
  expect(runs.map((run) => run.stop_reason)).toEqual(batch.run_ids.map(() => 'end_turn'));
}

test('an endless provider batch blocks no run of another, which goes from step to step', async () => {
  const { control } = house.simulator;
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'neverEnds' } });
  const batch = await house.submit(
    Array.from({ length: 4 }, () => ({
      input: [
        'x'.repeat(3_000),
        ...['one', 'two'].map((content) => call('core_memory_append', { label: 'notes', content })),
      ].join('\n'),
      blocks: { notes: '' },
      tools: ['core_memory_append'],
    })),
  );
  // Two runs fit in a body; the first two are stuck.
  const worker = house.worker({ settings: { body_bytes_max: 9_500 } });
  await expect(house.drive(worker, { rounds: 40 })).rejects.toThrow(/not ended/);
  const runs = await house.runsOf(batch.id);
  expect(runs.map((run) => [run.state, run.step_number]).toSorted()).toEqual([
    ['completed', 3],
    ['completed', 3],
    ['in_flight', 1],
    ['in_flight', 1],
  ]);
  await control.command(control.batches()[0]!.id, 'end');
  await house.drive(worker, { hasten: true });
  await expectAllCompleted(batch);
});

test('while no worker runs nothing is paid, waiting work is visible, and the first worker starts it', async () => {
  const batch = await submitTexts(3);
  await house.rows(`update run_chunk set next_due_at = app_now() - interval '1 hour'`);
  const gauges = await readGauges(house.database.db);
  expect(gauges.ready_runs).toBe(3);
  expect(gauges.oldest_due_seconds).toBeGreaterThanOrEqual(3_600);
  expect(requestsTo('create')).toEqual([]);

  // A worker that sends and is gone leaves the paid answers to the next.
  const gone = house.worker();
  await composeProviderBatch(gone);
  await submitProviderBatch(gone);
  await house.bury(gone);
  await house.rows(`update provider_batch set next_due_at = app_now() - interval '1 hour'`);
  expect((await readGauges(house.database.db)).oldest_due_seconds).toBeGreaterThanOrEqual(3_600);
  await house.drive(house.worker(), { hasten: true });
  await expectAllCompleted(batch);
  expect(billed()).toEqual({ requests: 3, twice: 0 });
});

test('one list serves many batches at a poll', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  house.simulator.control.configure({ latency: 'fixed:100000' });
  for (let index = 0; index < 6; index++) {
    await submitTexts(1, () => `alone ${index}`);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
  }
  const report = await pollProviderBatches(worker);
  expect(report).toMatchObject({ looked_at: 6, calls: 1 });
  // Before its first send a worker has requested the time.
  expect(requestsTo('list').map(({ path }) => path)).toEqual([
    '/v1/messages/batches?limit=1',
    '/v1/messages/batches?limit=1000',
  ]);
  expect(requestsTo('retrieve')).toHaveLength(0);
});

test('every poll, even of no due batch, returns the time of the next look, and a submission signals one', async () => {
  const poll = { poll_interval_ms: 20_000, poll_interval_ms_max: 20_000, missing_grace_ms: 0 };
  const rung: string[] = [];
  const worker = {
    ...house.worker({ settings: { poll } }),
    bell: {
      ring(signals: readonly { kind: string }[]) {
        rung.push(...signals.map(({ kind }) => kind));
        return Promise.resolve();
      },
    },
  };
  expect(await pollProviderBatches(worker)).toEqual({ flow: 'poll-provider-batches', worked: false });
  house.simulator.control.configure({ latency: 'fixed:100000' });
  await submitTexts(1, () => 'alone');
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  expect(rung).toContain('poll');
  const soon = { again_in_ms: expect.closeTo(20_000, -4) as number };
  expect(await pollProviderBatches(worker)).toMatchObject({ worked: false, ...soon });
  await house.rows('update provider_batch set next_due_at = app_now()');
  expect(await pollProviderBatches(worker)).toMatchObject({ looked_at: 1, ...soon });
});

test('batches missing from the list are retrieved by id, and none counts as lost', async () => {
  const worker = house.worker({ settings: { requests_max: 1 } });
  for (let index = 0; index < 5; index++) {
    await submitTexts(1, () => `alone ${index}`);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
  }
  house.simulator.control.addRule({ op: 'list', action: { type: 'omit' } });
  const report = await pollProviderBatches(worker);
  expect(report).toMatchObject({ looked_at: 5, calls: 2, lost: 0 });
});

test('a batch too large for one body is sent in several, and nothing is lost', async () => {
  const batch = await submitTexts(40, (index) => `${index} `.repeat(400));
  const worker = house.worker({ settings: { body_bytes_max: 10_000 } });
  await house.drive(worker, { rounds: 500 });
  await expectAllCompleted(batch);
  const sent = await house.rows<{ requests: number; bytes: number }>(
    `select request_count as requests, body_bytes as bytes from provider_batch where state = 'ingested'`,
  );
  expect(sent.length).toBeGreaterThan(5);
  expect(sent.reduce((sum, row) => sum + row.requests, 0)).toBe(40);
  for (const { bytes } of sent) expect(bytes).toBeLessThanOrEqual(10_000);
  expect(billed()).toEqual({ requests: 40, twice: 0 });
});

test('a single request larger than a body is sent all the same: the provider judges it', async () => {
  const batch = await submitTexts(3, (index) => (index === 1 ? 'x'.repeat(20_000) : 'short'));
  await house.drive(house.worker({ settings: { body_bytes_max: 5_000 } }));
  await expectAllCompleted(batch);
});

/** A provider that refuses every batch with a request that contains `word`. */
function refusing(word: string): ProviderPort {
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  return {
    ...real,
    async createBatch(body, asked) {
      if (!(await body.text()).includes(word)) return real.createBatch(body, asked);
      return {
        outcome: 'refused',
        what: 'bad_request',
        status: 400,
        message: `requests: ${word} is not welcome`,
        retry_after_ms: null,
      };
    },
  };
}

test('a request that the provider rejects at create is isolated by splitting, and only its run fails', async () => {
  const batch = await submitTexts(21, (index) => (index === 13 ? 'arsenic' : `lace ${index}`));
  await house.drive(house.worker({ provider: refusing('arsenic') }), { rounds: 500 });
  const runs = await house.runsOf(batch.id);
  expect(runs.map((run) => run.stop_reason)).toEqual(
    batch.run_ids.map((_, index) => (index === 13 ? 'invalid_request' : 'end_turn')),
  );
  expect(runs[13]).toMatchObject({ state: 'failed', error: { message: 'requests: arsenic is not welcome' } });
  expect(billed()).toEqual({ requests: 20, twice: 0 });
  // Halving finds one of 21 in five rounds; each leaves a good half behind.
  const creates = await house.rows(`select 1 from provider_batch where state in ('ingested', 'rejected')`);
  expect(creates.length).toBeLessThanOrEqual(6);
});

test('a refusal ends its step and its batch in one commit: a submission in doubt has an open step', async () => {
  // With none, it would adopt a batch of another submission of its size, and no line could disprove it.
  await house.rows(`
    create function refuse_idle_doubt() returns trigger language plpgsql as $$
    begin
      if exists (select from provider_batch p
                  where p.id = new.provider_batch_id and p.state in ('submitting', 'unknown')
                    and not exists (select from step s where s.provider_batch_id = p.id and s.state = 'sealed'))
      then raise exception 'a submission in doubt without an open step'; end if;
      return null;
    end $$`);
  await house.rows(`
    create constraint trigger no_idle_doubt after update on step deferrable initially deferred
       for each row execute function refuse_idle_doubt()`);
  const batch = await submitTexts(3, (index) => (index === 1 ? 'nasty' : `nice ${index}`));
  await house.drive(house.worker({ provider: refusing('nasty') }));
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
    'end_turn',
    'invalid_request',
    'end_turn',
  ]);
});

test('a provider that refuses everything fails a few runs, not all, even of small batches', async () => {
  const batches = [];
  for (let index = 0; index < 12; index++) batches.push(await submitTexts(2, (at) => `fee ${index} ${at}`));
  const settings = { requests_max: 2 };
  const refused = house.worker({ provider: refusing('fee'), settings });
  await expect(house.drive(refused, { hasten: true, rounds: 60 })).rejects.toThrow(/not ended/);
  const failed = (await house.rows(`select 1 from run where state = 'failed'`)).length;
  expect(failed).toBeGreaterThan(0);
  expect(failed).toBeLessThan(12);
  expect(await house.rows('select pause_reason from credential')).toEqual([
    { pause_reason: 'the provider refuses every request as bad' },
  ]);

  await house.drive(house.worker({ settings }), { hasten: true, rounds: 500 });
  const reasons = (await Promise.all(batches.map(({ id }) => house.runsOf(id)))).flat();
  expect(reasons.filter(({ stop_reason }) => stop_reason === 'end_turn')).toHaveLength(24 - failed);
  expect(billed()).toEqual({ requests: 24 - failed, twice: 0 });
});

test.each(['nothing answers', 'it limits the rate'] as const)(
  'a bad request is found at once after an outage in which %s',
  async (outage) => {
    const batch = await submitTexts(4, (index) => (index === 2 ? 'curare' : `cure ${index}`));
    const real = refusing('curare');
    let creates = 0;
    const provider: ProviderPort = {
      ...real,
      async createBatch(body, asked) {
        creates += 1;
        if (creates > 13) return real.createBatch(body, asked);
        if (outage === 'nothing answers') return { outcome: 'unknown', reason: 'HTTP 500', status: 500 };
        const limit = { what: 'rate_limited', status: 429, message: 'slowly', retry_after_ms: 0 } as const;
        return { outcome: 'refused', ...limit };
      },
    };
    await house.drive(house.worker({ provider }), { hasten: true, rounds: 500 });
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
      'end_turn',
      'end_turn',
      'invalid_request',
      'end_turn',
    ]);
    expect(creates).toBeLessThan(20);
  },
);

test('good requests are sent in the end, though batched with bad requests, after many of them', async () => {
  const worker = house.worker({ provider: refusing('hemlock'), settings: { requests_max: 1 } });
  for (let index = 0; index < 12; index++) await submitTexts(1, () => `hemlock ${index}`);
  await house.drive(worker, { hasten: true });
  const mixed = await submitTexts(4, (index) => (index === 0 ? 'hemlock' : `hem ${index}`));
  await house.drive(worker, { hasten: true, rounds: 100 });
  expect((await house.runsOf(mixed.id)).map((run) => run.stop_reason)).toEqual([
    'invalid_request',
    'end_turn',
    'end_turn',
    'end_turn',
  ]);
});

test('a create without an answer after many bad requests is the first of its kind', async () => {
  const worker = house.worker({
    provider: refusing('hemlock'),
    settings: { requests_max: 1, breaker: { failures_min: 3, rest_ms: 60_000, rest_ms_max: 60_000 } },
  });
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  for (const text of ['hemlock', 'hemlock again', 'hemlock once more', 'honey']) {
    await submitTexts(1, () => text);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
  }
  expect(await house.rows('select state from provider_batch where state = $1', ['unknown'])).toHaveLength(1);
  expect(await house.rows('select 1 from credential where paused_until > app_now()')).toEqual([]);
});

test('a credential pauses after consecutive creates without an answer, longer after each, and then sends again', async () => {
  house.simulator.control.addRule({
    op: 'create',
    match: { nth: [1, 2, 3] },
    action: { type: 'dropBefore' },
  });
  const worker = house.worker({
    settings: { breaker: { failures_min: 2, rest_ms: 60_000, rest_ms_max: 300_000 } },
  });
  const restOf = async (): Promise<number> => {
    const [rest] = await house.rows<{ seconds: number }>(
      `select greatest(0, extract(epoch from paused_until - app_now()))::float8 as seconds from credential`,
    );
    return rest?.seconds ?? 0;
  };
  await composeTexts(worker, 4);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
  expect(await restOf()).toBe(0);
  for (const seconds of [60, 120]) {
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'unknown' });
    const rest = await restOf();
    expect(rest).toBeGreaterThan(seconds - 30);
    expect(rest).toBeLessThanOrEqual(seconds);
    expect(await submitProviderBatch(worker)).toMatchObject({ worked: false });
    await house.rows(`update credential set paused_until = app_now()`);
    await house.rows(`update provider_batch set next_due_at = app_now() where state = 'building'`);
  }
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  expect(requestsTo('create')).toHaveLength(4);
});

test('good requests do not wait for ever behind a single bad request, after a pause of the credential', async () => {
  const refusal = { backoff_ms: 0, backoff_ms_max: 0, pause_ms: 300_000, refusals_max: 12 };
  const worker = house.worker({ provider: refusing('hemlock'), settings: { requests_max: 1, refusal } });
  for (let index = 0; index < 13; index++) {
    await submitTexts(1, () => `hemlock ${index}`);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
  }
  const good = await submitTexts(1, () => 'honey');
  await composeProviderBatch(worker);
  expect(await submitProviderBatch(worker)).toMatchObject({ worked: false });
  // Batches that wait for the credential may look again up to half a second after its pause.
  await house.rows(`update provider_batch set next_due_at = (select paused_until + interval '500 ms' from credential)
                     where error is null and state = 'building'`);
  await house.rows(`update provider_batch set next_due_at = next_due_at - interval '5 minutes 5 seconds'`);
  await house.rows(`update credential set paused_until = paused_until - interval '5 minutes 5 seconds'`);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  await house.drive(worker, { hasten: true });
  await expectAllCompleted(good);
});

/** Makes this many provider batches, of one request each. */
async function composeTexts(worker: FlowDeps, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await submitTexts(1, () => `alone ${index}`);
    await composeProviderBatch(worker);
  }
}

test.each([
  ['rests', `interval '20 seconds'`, [15, 20]],
  ['is halted', `interval 'infinity'`, [55, 60]],
] as const)(
  'while a credential %s each batch asks for it once, and a cancel does not wait behind the others',
  async (_how, pause, [min, max]) => {
    const worker = house.worker();
    await composeTexts(worker, 3);
    const cancelled = await submitTexts(1, () => 'never sent');
    await composeProviderBatch(worker);
    await house.rows(`update credential set paused_until = app_now() + ${pause}`);
    for (let looks = 0; looks < 4; looks++)
      expect(await submitProviderBatch(worker)).toMatchObject({ worked: false, again_in_ms: 0 });
    const { worked, again_in_ms } = await submitProviderBatch(worker);
    expect(worked).toBe(false);
    expect(again_in_ms).toBeGreaterThan(min * 1_000);
    expect(again_in_ms).toBeLessThanOrEqual(max * 1_000);
    for (const { seconds } of await house.rows<{ seconds: number }>(
      'select extract(epoch from next_due_at - app_now())::float8 as seconds from provider_batch',
    )) {
      expect(seconds).toBeGreaterThan(min);
      expect(seconds).toBeLessThanOrEqual(max);
    }
    await house.cancel(cancelled.id);
    await cancelBatch(worker);
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'withdrawn' });
  },
);

test('a pause of a batch put off for its credential does not wait for the credential', async () => {
  const worker = house.worker();
  const paused = await submitTexts(1, () => 'paused');
  await composeProviderBatch(worker);
  await house.rows(`update credential set paused_until = app_now() + interval '20 seconds'`);
  const blocker = await house.database.pool.connect();
  try {
    await blocker.query('begin');
    await blocker.query(
      `update batch set state = 'paused', state_reason = 'paused by a person' where id = $1`,
      [paused.id],
    );
    const put_off = submitProviderBatch(worker);
    await expect
      .poll(() =>
        house.rows(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        ),
      )
      .toHaveLength(1);
    await blocker.query('commit');
    expect(await put_off).toMatchObject({ worked: false });
  } finally {
    blocker.release();
  }
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'withdrawn' });
});

test.each([
  ['before the send was reported', 'submit.after_post', { error: 'the line is cut' }],
  ['after the send was reported', 'submit.after_commit', { outcome: 'submitted' }],
])(
  'a credential whose release failed, %s, is released as soon as the database answers',
  async (_when, cutAt, end) => {
    const line = { isCut: false };
    const db = house.database.db.withPlugin({
      transformQuery({ node }) {
        if (line.isCut) throw new Error('the line is cut');
        return node;
      },
      transformResult: ({ result }) => Promise.resolve(result),
    });
    const sender = house.worker();
    const leases = createLeaseKeeper(db, { owner: 'sender', lease_duration_ms: 6_000 });
    try {
      const worker: FlowDeps = {
        ...{ ...sender, db, leases, claimant: { owner: 'sender', lease_duration_ms: 6_000 } },
        hooks: (point) => {
          line.isCut = point === cutAt;
          return Promise.resolve();
        },
      };
      await composeTexts(worker, 1);
      const sent = await submitProviderBatch(worker).catch((error: unknown) => ({
        error: (error as Error).message,
      }));
      expect(sent).toMatchObject(end);
      line.isCut = false;
      await expect
        .poll(() => house.rows('select 1 from credential where lease_until < app_now()'))
        .toHaveLength(1);
    } finally {
      leases.close();
    }
  },
);

test('batches whose poll failed because the database was away are released by their worker', async () => {
  const worker = house.worker({
    hooks: (point) => (point === 'poll.after_look' ? Promise.reject(new Error('cut')) : Promise.resolve()),
  });
  await composeTexts(worker, 5);
  while ((await submitProviderBatch(worker)).worked);
  await expect(pollProviderBatches(worker)).rejects.toThrow('cut');
  expect(
    await house.rows(
      `select count(*)::int, max(lease_owner) as holder,
              min(next_due_at) > app_now() and max(next_due_at) <= app_now() + interval '1 second' as soon from provider_batch`,
    ),
  ).toEqual([{ count: 5, holder: null, soon: true }]);
});

test('a batch too large for the provider is split until it fits', async () => {
  house.simulator.control.configure({ max_body_bytes: 6_000 });
  const batch = await submitTexts(32, (index) => `${index} `.repeat(100));
  await house.drive(house.worker(), { rounds: 500 });
  await expectAllCompleted(batch);
  expect(billed()).toEqual({ requests: 32, twice: 0 });
  expect(requestsTo('create').some((entry) => entry.status === 413)).toBe(true);
});

test('a single request too large for the provider ends its run as context_overflow', async () => {
  house.simulator.control.configure({ max_body_bytes: 6_000 });
  const batch = await submitTexts(3, (index) => (index === 2 ? 'x'.repeat(10_000) : 'short'));
  await house.drive(house.worker(), { rounds: 500 });
  const runs = await house.runsOf(batch.id);
  expect(runs.map((run) => run.stop_reason)).toEqual(['end_turn', 'end_turn', 'context_overflow']);
});

test('a rate limit with retry-after pauses the credential for that time and uses up no attempt', async () => {
  house.simulator.control.addRule({
    op: 'create',
    match: { times: 3 },
    action: { type: 'status', code: 429, headers: { 'retry-after': '30' } },
  });
  const batch = await submitTexts(4);
  const worker = house.worker();
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
  const [credential] = await house.rows<{ seconds: number; pause_reason: string }>(
    `select extract(epoch from paused_until - app_now())::float8 as seconds, pause_reason from credential`,
  );
  expect(credential?.pause_reason).toBe('the provider limits the rate');
  expect(credential?.seconds).toBeGreaterThan(25);
  expect(credential?.seconds).toBeLessThanOrEqual(30);
  // No other worker sends under it meanwhile.
  await submitTexts(1, () => 'another');
  const other = house.worker();
  await composeProviderBatch(other);
  expect(await submitProviderBatch(other)).toMatchObject({ worked: false });
  expect(requestsTo('create')).toHaveLength(1);

  await house.drive(worker, { hasten: true, rounds: 500 });
  await expectAllCompleted(batch);
  const attempts = await house.rows('select distinct attempt, number from step');
  expect(attempts).toEqual([{ attempt: 1, number: 1 }]);
  expect(billed()).toEqual({ requests: 5, twice: 0 });
});

test('a refused key stops nothing for good: its steps are sent unchanged once it is accepted', async () => {
  house.simulator.control.addRule({
    op: 'create',
    match: { times: 2 },
    action: { type: 'status', code: 401 },
  });
  const batch = await submitTexts(3);
  await house.drive(house.worker(), { hasten: true });
  await expectAllCompleted(batch);
  expect(await house.rows('select distinct attempt from step')).toEqual([{ attempt: 1 }]);
});

test.each([
  [401, 'the provider refuses the key', true],
  [403, 'the provider refuses the key', true],
  [402, 'the spend limit at the provider is reached', true],
  [429, 'the provider limits the rate', undefined],
  [529, 'the provider is overloaded', undefined],
] as const)(
  'a create refused with %i is an alarm each time if a person has to mend it',
  async (code, reason, alarm) => {
    house.simulator.control.addRule({ op: 'create', match: { times: 2 }, action: { type: 'status', code } });
    await submitTexts(1);
    const worker = house.worker();
    await composeProviderBatch(worker);
    for (let met = 0; met < 2; met++) {
      await house.hasten();
      const report = await submitProviderBatch(worker);
      expect(report).toMatchObject({ outcome: 'refused', reason });
      expect(report['alarm']).toBe(alarm);
    }
  },
);

test('a provider that refuses everything is an alarm at each pause of the credential', async () => {
  const refusal = { backoff_ms: 0, backoff_ms_max: 0, pause_ms: 0, refusals_max: 1 };
  const worker = house.worker({ provider: refusing('hemlock'), settings: { refusal } });
  await submitTexts(4, () => 'hemlock');
  await composeProviderBatch(worker);
  const told = [];
  for (let creates = 0; creates < 4; creates++) {
    await house.hasten();
    const { outcome, reason, alarm } = await submitProviderBatch(worker);
    told.push([outcome, reason, alarm]);
  }
  const reason = 'the provider refuses every request as bad';
  expect(told).toEqual([
    ['split', undefined, undefined],
    ['split', reason, true],
    ['split', reason, true],
    ['refused', reason, true],
  ]);
});

test.each([
  ['the connection is cut', { type: 'commitThenDrop' }],
  ['the answer is a page of HTML', { type: 'commitThenHtml200' }],
  ['the answer is a server error', { type: 'commitThenStatus', code: 500 }],
  ['the answer breaks off', { type: 'commitThenPartialBody' }],
  ['the answer names no batch', { type: 'commitThenNoId' }],
] as const)(
  'a batch that the provider has although %s is adopted, and billed once',
  async (_what, action) => {
    house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action });
    const batch = await submitTexts(7);
    const reports = await house.drive(house.worker(), { hasten: true });
    expect(reports.map((report) => report['outcome'])).toContain('adopted');
    await expectAllCompleted(batch);
    expect(house.simulator.control.batches()).toHaveLength(1);
    expect(billed()).toEqual({ requests: 7, twice: 0 });
  },
);

test('a create that never arrived is sent again under another nonce, after two lists without it', async () => {
  house.simulator.control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'dropBefore' } });
  const batch = await submitTexts(7);
  const reports = await house.drive(house.worker(), { hasten: true });
  const outcomes = reports.map((report) => report['outcome']);
  expect(outcomes).toContain('not found yet');
  expect(outcomes).toContain('withdrawn');
  await expectAllCompleted(batch);
  expect(billed()).toEqual({ requests: 7, twice: 0 });
  expect(await house.rows('select attempt, state from step group by 1, 2')).toEqual([
    { attempt: 2, state: 'done' },
  ]);
});

test('an unknown batch is not given up while the list of batches is incomplete', async () => {
  const { control } = house.simulator;
  control.addRule({ op: 'create', match: { nth: 1 }, action: { type: 'commitThenDrop' } });
  const hidden = control.addRule({ op: 'list', action: { type: 'status', code: 500 } });
  const batch = await submitTexts(2);
  const worker = house.worker();
  await expect(house.drive(worker, { hasten: true, rounds: 10 })).rejects.toThrow(/not ended/);
  expect(await house.rows('select state, searches from provider_batch')).toEqual([
    { state: 'unknown', searches: 0 },
  ]);
  await house.hasten();
  expect(await reconcileSubmission(worker)).toMatchObject({
    outcome: 'not found yet',
    reason: expect.stringMatching(/^HTTP 500: /) as string,
    warning: true,
  });
  control.removeRule(hidden);
  await house.drive(worker, { hasten: true });
  await expectAllCompleted(batch);
  expect(billed()).toEqual({ requests: 2, twice: 0 });
});

test('a batch that the provider does not find for longer than the grace is given up, and its steps are sent again', async () => {
  const { control } = house.simulator;
  const gone = control.addRule({
    op: 'retrieve',
    match: { batch_seq: 1 },
    action: { type: 'status', code: 404 },
  });
  const batch = await submitTexts(3);
  const worker = house.worker({
    settings: { poll: { poll_interval_ms: 0, poll_interval_ms_max: 0, missing_grace_ms: 60_000 } },
  });
  await expect(house.drive(worker, { rounds: 5 })).rejects.toThrow(/not ended/);
  expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'submitted' }]);

  // Only the database's clock has moved: the provider's has to move as well.
  await house.rows(`update provider_batch set missing_since = missing_since - interval '61 seconds'`);
  await expect(house.drive(worker, { rounds: 5 })).rejects.toThrow(/not ended/);
  expect(await house.rows('select state from provider_batch')).toEqual([{ state: 'submitted' }]);

  await house.rows(`update provider_batch set provider_sent_at = provider_sent_at - interval '61 seconds'`);
  await house.drive(worker, { hasten: true });
  await expectAllCompleted(batch);
  expect(await house.rows('select state, count(*)::int from step group by 1 order by 1')).toEqual([
    { state: 'done', count: 3 },
    { state: 'lost', count: 3 },
  ]);
  expect(control.removeRule(gone)).toBe(true);
});

test('a missing batch that reappears within the grace goes on as before', async () => {
  house.simulator.control.addRule({
    op: 'retrieve',
    match: { times: 2 },
    action: { type: 'status', code: 404 },
  });
  const batch = await submitTexts(3);
  const worker = house.worker({
    settings: { poll: { poll_interval_ms: 0, poll_interval_ms_max: 0, missing_grace_ms: 60_000 } },
  });
  await house.drive(worker);
  await expectAllCompleted(batch);
  expect(await house.rows('select missing_since, state from provider_batch')).toEqual([
    { missing_since: null, state: 'ingested' },
  ]);
  expect(billed()).toEqual({ requests: 3, twice: 0 });
});

test('a provider that does not answer polls is asked again, and nothing else happens', async () => {
  house.simulator.control.addRule({
    op: 'retrieve',
    match: { times: 4 },
    action: { type: 'status', code: 503 },
  });
  const batch = await submitTexts(3);
  await house.drive(house.worker(), { hasten: true });
  await expectAllCompleted(batch);
  expect(await house.rows('select attempt from step')).toHaveLength(3);
});

test.each([
  ['one by one', 1, 'retrieve', 401, 'alarm'],
  ['by a list', 5, 'list', 403, 'alarm'],
  ['by a list', 5, 'list', 503, 'warning'],
] as const)(
  'an operator is told once an hour that batches polled %s get no answer, with the reason (%i, %s, %i: %s)',
  async (_how, batches, op, code, how) => {
    house.simulator.control.addRule({ op, action: { type: 'status', code } });
    const worker = house.worker({ settings: { requests_max: 1 } });
    for (let index = 0; index < batches; index++) {
      await submitTexts(1, () => `alone ${index}`);
      await composeProviderBatch(worker);
      await submitProviderBatch(worker);
    }
    const told = {
      unanswered: batches,
      reason: expect.stringMatching(new RegExp(`^HTTP ${code}: `)) as string,
    };
    const later = async (minutes: number): Promise<void> => {
      await house.rows(
        `update provider_batch set next_due_at = next_due_at - make_interval(mins => $1),
                error = json_build_object('told_at', (error->>'told_at')::timestamptz - make_interval(mins => $1))`,
        [minutes],
      );
    };
    expect(await pollProviderBatches(worker)).toMatchObject({ ...told, [how]: true });
    await later(30);
    const again = await pollProviderBatches(worker);
    expect(again).toMatchObject(told);
    expect(again).not.toHaveProperty('warning');
    expect(again).not.toHaveProperty('alarm');
    await later(31);
    expect(await pollProviderBatches(worker)).toMatchObject({ ...told, [how]: true });
    // It answers again: the recorded silence is cleared.
    house.simulator.control.clearRules();
    await later(30);
    await pollProviderBatches(worker);
    expect(await house.rows('select distinct error::text from provider_batch')).toEqual([{ error: null }]);
  },
);

test.each([
  ['one by one', 1, 'retrieve'],
  ['by a list', 5, 'list'],
] as const)(
  'batches polled %s are polled again after the provider’s retry-after',
  async (_how, batches, op) => {
    house.simulator.control.addRule({
      op,
      action: { type: 'status', code: 429, headers: { 'retry-after': '900' } },
    });
    const worker = house.worker({ settings: { requests_max: 1 } });
    for (let index = 0; index < batches; index++) {
      await submitTexts(1, () => `alone ${index}`);
      await composeProviderBatch(worker);
      await submitProviderBatch(worker);
    }
    await pollProviderBatches(worker);
    const waits = await house.rows(
      `select distinct next_due_at - app_now() between interval '14 minutes' and interval '15 minutes' as is_due_then
         from provider_batch`,
    );
    expect(waits).toEqual([{ is_due_then: true }]);
  },
);

test('a batch shown in progress after its end is read all the same', async () => {
  house.simulator.control.addRule({ op: 'retrieve', match: { nth: [1, 3] }, action: { type: 'regress' } });
  const batch = await submitTexts(3);
  await house.drive(house.worker());
  await expectAllCompleted(batch);
});
