import type {} from '../../../../test/global-setup.ts';
import { releaseAllLeases } from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { ResultsInterrupted, type ResultsOutcome } from '../../src/provider/port.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

/** Submits runs, of which one has a different agent. */
function submitOneAmong(count: number, place: number): Promise<SubmittedBatch> {
  return house.submit(
    Array.from({ length: count }, (_, index) => ({
      input: `${index}`,
      ...(index === place ? { agent: { system: 'Unlike the others.' } } : {}),
    })),
  );
}

/** Results that are unavailable for now. */
const AWAY: ResultsOutcome = { outcome: 'unavailable', status: null, reason: 'away', retry_after_ms: null };

/** A crash of a worker, as if the database had disconnected it. */
const DEAD = Object.assign(new Error('dead'), { code: '57P01' });

/** A worker that crashes, or fails, at any use of this run's definition. */
async function mortal(runId: string, error: Error = DEAD, worker = house.worker()): Promise<FlowDeps> {
  const [deadly] = await house.rows<{ definition_id: string }>(
    `select definition_id from run where id = $1`,
    [runId],
  );
  return {
    ...worker,
    definitions: {
      get(db, ids) {
        if (ids.includes(deadly!.definition_id)) throw error;
        return worker.definitions.get(db, ids);
      },
    },
  };
}

/**
 * Runs the flow until it ends once, or `times` times; each crash leaves the lease to expire. Returns the crashes and the
 * end.
 */
async function dieOf(
  flow: (deps: FlowDeps) => Promise<FlowReport>,
  worker: FlowDeps,
  times = 100,
): Promise<{ readonly deaths: number; readonly end: FlowReport | null }> {
  for (let deaths = 0; deaths < times; deaths++) {
    const end = await flow(worker).catch((error: unknown) => {
      expect(error).toMatchObject({ message: 'dead' });
      return null;
    });
    if (end !== null) return { deaths, end };
    await house.rows(
      `update provider_batch set lease_owner = 'dead', lease_until = app_now() - interval '1 second', next_due_at = app_now()
        where next_due_at is not null and state in ('building', 'ended') and next_due_at > app_now()`,
    );
    await house.rows(
      `update credential set lease_until = '-infinity', lease_owner = null, paused_until = null`,
    );
  }
  return { deaths: times, end: null };
}

async function untilEnded(worker: FlowDeps): Promise<void> {
  await expect(
    house.drive(
      {
        ...worker,
        provider: {
          ...worker.provider,
          streamResults: () => Promise.resolve(AWAY),
        },
      },
      { rounds: 4 },
    ),
  ).rejects.toThrow('have not ended');
  await house.rows(`update provider_batch set next_due_at = app_now() where state = 'ended'`);
}

test('a line that crashes workers, three of them over it alone, is set aside, and all others are applied', async () => {
  const batch = await submitOneAmong(8, 3);
  await untilEnded(house.worker());
  const { deaths, end } = await dieOf(ingestResults, await mortal(batch.run_ids[3]!));
  // Three over the whole chunk of fifty, three over it alone.
  expect(deaths).toBe(6);
  const reason = expect.stringMatching(/^line \d: 3 workers crashed while they held it alone/) as string;
  expect(end).toMatchObject({ outcome: 'ingested', quarantined: 1, alarm: true, reason });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
    batch.run_ids.map((_, index) => (index === 3 ? 'poison' : 'end_turn')),
  );
  const aside = await house.rows(
    `select custom_id is not null as named, byte_length > 100 as whole from result_line`,
  );
  expect(aside).toEqual([{ named: true, whole: true }]);
});

test('a line set aside crashes no worker in a later pass, which decides about other failed lines', async () => {
  const batch = await house.submit(
    Array.from({ length: 8 }, (_, index) => ({
      input: `${index}`,
      ...(index === 3 || index === 5 ? { agent: { system: `Unlike the others: ${index}.` } } : {}),
    })),
  );
  await untilEnded(house.worker());
  const deadly = await mortal(batch.run_ids[3]!);
  const worker = await mortal(batch.run_ids[5]!, new TypeError('a fault of ours'), deadly);
  const first = await dieOf(ingestResults, worker);
  expect(first.end).toMatchObject({ outcome: 'again', alarm: true });
  // It names both: the line set aside, and the line left.
  expect(first.end?.['reason']).toMatch(
    /3 workers crashed while they held it alone.*; line \d: a fault of ours/,
  );
  await house.hasten();
  const second = await dieOf(ingestResults, worker);
  expect(second).toMatchObject({ deaths: 0, end: { outcome: 'ingested', quarantined: 1 } });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
    batch.run_ids.map((_, index) => (index === 3 || index === 5 ? 'poison' : 'end_turn')),
  );
});

test('a name server failure costs no answer, not even of a single line', async () => {
  const batch = await house.submit([{ input: 'paid' }]);
  const worker = house.worker();
  await untilEnded(worker);
  let hiccups = 0;
  const db = worker.db.withPlugin({
    transformQuery({ node }) {
      if (hiccups === 0 && JSON.stringify(node).includes('r.token_boost')) {
        hiccups += 1;
        const error = new Error('getaddrinfo EAI_AGAIN database');
        throw Object.assign(error, { code: 'EAI_AGAIN', errno: -3001, syscall: 'getaddrinfo' });
      }
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  });
  await expect(ingestResults({ ...worker, db })).rejects.toThrow('EAI_AGAIN');
  expect(hiccups).toBe(1);
  await house.hasten();
  expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested', quarantined: 0 });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(['end_turn']);
});

test('a line set aside is reported even if the results break off after it', async () => {
  const batch = await submitOneAmong(8, 3);
  await untilEnded(house.worker());
  const worker = await mortal(batch.run_ids[3]!);
  const { streamResults } = worker.provider;
  const provider: FlowDeps['provider'] = {
    ...worker.provider,
    async streamResults(id, options) {
      const opened = await streamResults.call(worker.provider, id, options);
      if (opened.outcome !== 'open') return opened;
      return { ...opened, chunks: brokenOff(opened.chunks) };
    },
  };
  const { end } = await dieOf(ingestResults, { ...worker, provider });
  const reason = expect.stringMatching(
    /3 workers crashed while they held it alone; .*result stream broke/,
  ) as string;
  expect(end).toMatchObject({ outcome: 'again', alarm: true, reason });
});

/** Breaks off at its end once a line has been set aside. */
async function* brokenOff(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* chunks;
  const aside = await house.rows('select 1 from result_line');
  if (aside.length > 0) throw new ResultsInterrupted('the connection was reset');
}

test('any number of chunks too large for every worker crash only three workers', async () => {
  const batch = await house.submit(Array.from({ length: 60 }, (_, index) => ({ input: `${index}` })));
  await untilEnded(house.worker());
  const worker = house.worker({ settings: { chunk_lines: 20 } });
  const { deaths, end } = await dieOf(ingestResults, {
    ...worker,
    definitions: {
      get(db, ids) {
        if (ids.length > 10) throw DEAD;
        return worker.definitions.get(db, ids);
      },
    },
  });
  expect(deaths).toBe(3);
  expect(end).toMatchObject({ outcome: 'ingested', applied: 60 });
  expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
});

test('if nearly every line fails alone, a pass line by line ends early', async () => {
  await house.submit(
    Array.from({ length: 60 }, (_, index) => ({ input: `${index}`, agent: { system: 'All fail.' } })),
  );
  const worker = house.worker({ settings: { chunk_lines: 20 } });
  await untilEnded(worker);
  await crash(3);
  let asked = 0;
  const end = await ingestResults({
    ...worker,
    definitions: {
      get() {
        asked += 1;
        throw new TypeError('a fault of ours');
      },
    },
  });
  const reason = expect.stringMatching(/none is set aside: line \d+: a fault of ours/) as string;
  expect(end).toMatchObject({ outcome: 'again', applied: 0, alarm: true, reason });
  expect(asked).toBeLessThan(30);
});

test('a request that crashes workers is isolated after a few rounds, and its run ends', async () => {
  const batch = await submitOneAmong(8, 3);
  await composeProviderBatch(house.worker());
  const worker = await mortal(batch.run_ids[3]!);
  const ends: FlowReport[] = [];
  let died = 0;
  for (;;) {
    const { deaths, end } = await dieOf(submitProviderBatch, worker);
    died += deaths;
    if (end?.worked !== true) break;
    ends.push(end);
  }
  // Eight, four, two and one, each with three workers, and three more that had noted it.
  expect(died).toBe(15);
  expect(ends.map((end) => end['outcome']).toSorted()).toEqual([
    'poison taken out',
    ...['split', 'split', 'split'],
    ...['submitted', 'submitted', 'submitted'],
  ]);
  await house.drive(house.worker());
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
    batch.run_ids.map((_, index) => (index === 3 ? 'poison' : 'end_turn')),
  );
  const { totals, repeated } = house.simulator.control.ledger();
  expect([totals.requests, repeated.content_hashes]).toEqual([7, 0]);
});

test.each([
  ['a request', 'building', submitProviderBatch],
  ['a line', 'ended', ingestResults],
] as const)(
  '%s alone waits at random before it is noted, so that it does not crash in step with another cause',
  async (_what, state, flow) => {
    const batch = await submitOneAmong(1, 0);
    if (state === 'building') await composeProviderBatch(house.worker());
    else await untilEnded(house.worker());
    await crash(8);
    const patient = house.worker({ settings: { alone_delay_ms_max: 1e9 } });
    const trying = flow(patient);
    await expect.poll(marks).toEqual({ crash_count: 8, suspect_tries: 0 });
    patient.leases.abandon();
    await expect(trying).rejects.toThrow('was lost');
    expect(await marks()).toEqual({ crash_count: 8, suspect_tries: 0 });
    expect(await house.rows('select 1 from credential where lease_owner is not null')).toEqual([]);
    await house.drive(house.worker());
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(['end_turn']);
  },
);

test.each([
  ['is held', `lease_owner = 'other', lease_until = app_now() + interval '1 minute'`],
  ['rests', `paused_until = app_now() + interval '20 seconds'`],
])('a request that waits because its credential %s is no less suspect for it', async (_how, busy) => {
  await submitOneAmong(1, 0);
  await composeProviderBatch(house.worker());
  const worker = await mortal((await house.rows<{ id: string }>('select id from run'))[0]!.id);
  // Three crashes among others, one alone.
  expect(await dieOf(submitProviderBatch, worker, 4)).toMatchObject({ deaths: 4, end: null });
  const before = await marks();
  expect(before).toEqual({ crash_count: 3, suspect_tries: 1 });
  await house.rows(`update credential set ${busy}`);
  expect(await submitProviderBatch(worker)).toMatchObject({ worked: false });
  await house.hasten();
  await house.rows(
    `update credential set lease_until = '-infinity', lease_owner = null, paused_until = null`,
  );
  expect(await dieOf(submitProviderBatch, worker)).toMatchObject({
    deaths: 2,
    end: { outcome: 'poison taken out' },
  });
});

test.each([
  [
    'the database goes away before',
    (worker: FlowDeps): Promise<FlowDeps> => {
      const db = worker.db.withPlugin({
        transformQuery({ node }) {
          if (JSON.stringify(node).includes('update credential')) throw new Error('the line is cut');
          return node;
        },
        transformResult: ({ result }) => Promise.resolve(result),
      });
      return Promise.resolve({ ...worker, db });
    },
    'the line is cut',
  ],
  [
    'it stops in an orderly way before',
    async (worker: FlowDeps): Promise<FlowDeps> => {
      await Promise.resolve();
      const hold: FlowDeps['leases']['hold'] = (lease) => {
        const held = worker.leases.hold(lease);
        worker.leases.abandon();
        return held;
      };
      return { ...worker, leases: { ...worker.leases, hold } };
    },
    'was lost',
  ],
] as const)(
  'a request that a worker released untried, because %s, is no less suspect for it',
  async (_why, hinder, error) => {
    await submitOneAmong(1, 0);
    await composeProviderBatch(house.worker());
    const worker = await mortal((await house.rows<{ id: string }>('select id from run'))[0]!.id);
    expect(await dieOf(submitProviderBatch, worker, 4)).toMatchObject({ deaths: 4, end: null });
    await expect(submitProviderBatch(await hinder(worker))).rejects.toThrow(error);
    await releaseAllLeases(house.database.db, worker.claimant.owner);
    await house.hasten();
    expect(await dieOf(submitProviderBatch, worker)).toMatchObject({
      deaths: 2,
      end: { outcome: 'poison taken out' },
    });
  },
);

/** Simulates repeated crashes over the results, the last just now. */
function crash(crashes: number): Promise<unknown> {
  return house.rows(
    `update provider_batch set lease_owner = 'dead', lease_until = app_now() - interval '1 second', crash_count = $1,
            next_due_at = app_now()`,
    [crashes - 1],
  );
}

const marks = async (): Promise<unknown> =>
  (await house.rows('select crash_count, suspect_tries from provider_batch'))[0];

test('any number of crashes before a line is reached costs no run', async () => {
  const batch = await submitOneAmong(8, 3);
  const worker = house.worker({ settings: { chunk_lines: 4 } });
  await untilEnded(worker);
  await crash(50);
  expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested', applied: 8, quarantined: 0 });
  expect(await marks()).toEqual({ crash_count: 0, suspect_tries: 1 });
  await house.drive(worker);
  expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
});

test('an orderly release resets the crash count', async () => {
  await submitOneAmong(8, 3);
  const worker = house.worker();
  await untilEnded(worker);
  await crash(4);
  const away = { ...worker.provider, streamResults: () => Promise.resolve(AWAY) };
  await ingestResults({ ...worker, provider: away });
  expect(await marks()).toEqual({ crash_count: 4, suspect_tries: 0 });
  await house.hasten();
  await ingestResults({ ...worker, provider: away });
  expect(await marks()).toEqual({ crash_count: 0, suspect_tries: 0 });
});

test.each([3, 4])(
  'lines that fail after %i crashes are left for a pass that measures how many do',
  async (crashes) => {
    const batch = await submitOneAmong(8, 3);
    const worker = house.worker();
    await untilEnded(worker);
    await crash(crashes);
    const odd = await mortal(batch.run_ids[3]!, new TypeError('a fault of ours'));
    const reason = expect.stringMatching(/^line \d: a fault of ours/) as string;
    expect(await ingestResults(odd)).toMatchObject({ outcome: 'again', applied: 7, alarm: true, reason });
    expect(await house.rows('select 1 from result_line')).toEqual([]);
    await house.hasten();
    expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested', applied: 1, quarantined: 0 });
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  },
);
