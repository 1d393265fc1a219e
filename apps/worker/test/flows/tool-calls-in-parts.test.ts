import { progressOf } from '@nightshift/agent-core';
import { auditInvariants, DEFAULT_PROJECT_ID, readBatchProgress } from '@nightshift/db';
import { describe, expect, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import {
  house,
  submitCalls,
  untilActing,
  whatOf,
  reply,
  world,
  timesDone,
  statesOf,
  resultsOf,
  slowed,
  openHouseForEach,
} from './tool-call-house.ts';

openHouseForEach();

describe('a slow call', () => {
  test('holds up its own run alone: its neighbours go on under the same lease', async () => {
    const batch = await submitCalls([
      [['act_none', 'slow']],
      [['act_none', 'quick']],
      [['act_once', 'charge']],
    ]);
    await untilActing();
    const slow = Promise.withResolvers<void>();
    const { tools, done } = world();
    const states = async (): Promise<string> =>
      (await house.runsOf(batch.id)).map((run) => run.state).join(' ');
    const working = runToolCalls(slowed(house.worker({ tools }), slow.promise));
    await expect.poll(states).toBe('acting ready ready');
    const [chunk] = await house.rows<{ run_ids: string[]; lease_owner: string | null }>(
      `select run_ids, lease_owner from run_chunk where kind = 'tools'`,
    );
    expect(chunk?.run_ids).toEqual([batch.run_ids[0]]);
    expect(chunk?.lease_owner).not.toBeNull();
    slow.resolve();
    expect(await working).toMatchObject({ worked: true, runs: 3, calls: 3 });
    expect(await states()).toBe('ready ready ready');
    expect(timesDone(done)).toEqual({ slow: 1, quick: 1, charge: 1 });
  });

  test('is open in the progress while the calls beside it are counted, those of its own run too', async () => {
    const batch = await submitCalls([
      [
        ['act_none', 'slow'],
        ['act_none', 'quick'],
        ['act_none', 'bad'],
      ],
      [['act_none', 'done']],
      [['act_once', 'lost']],
    ]);
    await untilActing();
    const progressed = async () =>
      progressOf((await readBatchProgress(house.database.db, DEFAULT_PROJECT_ID, batch.id)).facts).calls;
    expect(await progressed()).toEqual({ done: 0, failed: 0, unknown: 0, open: 5 });
    const slow = Promise.withResolvers<void>();
    const worker = house.worker({
      tools: {
        runCalls: (calls) =>
          Promise.resolve(
            calls.map((request) => {
              const what = whatOf(request);
              return reply(
                request,
                what === 'bad' ? 'failed' : what === 'lost' ? 'timed_out' : 'succeeded',
                true,
              );
            }),
          ),
      },
    });
    const working = runToolCalls(slowed(worker, slow.promise));
    await expect.poll(progressed).toEqual({ done: 2, failed: 1, unknown: 1, open: 1 });
    expect(await auditInvariants(house.database.db)).toEqual([]);
    slow.resolve();
    await working;
    expect(await progressed()).toEqual({ done: 3, failed: 1, unknown: 1, open: 0 });
  });

  test('leaves the results of its neighbours committed when its worker dies, and is made again', async () => {
    const batch = await submitCalls([
      [['act_none', 'slow']],
      [
        ['act_none', 'quick'],
        ['act_once', 'charge'],
      ],
    ]);
    await untilActing();
    const first = world();
    const committed = Promise.withResolvers<void>();
    const doomed = house.worker({
      owner: 'doomed',
      tools: first.tools,
      hooks: (point) => (point === 'tools.after_commit' ? committed.resolve() : undefined),
    });
    void runToolCalls(slowed(doomed, new Promise(() => undefined))).catch(() => undefined);
    await committed.promise;
    await house.bury(doomed);
    const { tools, done } = world();
    await house.drive(house.worker({ tools }), { hasten: true });
    expect(timesDone(first.done)).toEqual({ quick: 1, charge: 1 });
    expect(timesDone(done)).toEqual({ slow: 1 });
    expect(await statesOf(batch)).toEqual(['succeeded', 'succeeded', 'succeeded']);
  });
});

test('calls that a stop has ended just before the commit are left to the next worker', async () => {
  const batch = await submitCalls([[['act_none', 'quick']], [['act_none', 'slow']]]);
  await untilActing();
  const { tools, done } = world();
  const stopped: FlowDeps = house.worker({
    tools,
    hooks: (point) => (point === 'tools.after_calls' ? stopped.leases.close() : undefined),
  });
  const whenStopped = Promise.withResolvers<void>();
  const ending: FlowDeps = {
    ...stopped,
    tools: {
      ...stopped.tools,
      async run(request, options) {
        if (whatOf(request) === 'quick') return stopped.tools.run(request, options);
        options.signal.addEventListener('abort', () => whenStopped.resolve());
        await whenStopped.promise;
        return reply(request, 'crashed', true, 'the caller gave up');
      },
    },
  };
  expect(await runToolCalls(ending)).toMatchObject({ outcome: 'given_back' });
  await house.drive(house.worker({ tools }), { hasten: true });
  expect(timesDone(done)).toEqual({ quick: 1, slow: 1 });
  expect(await statesOf(batch)).toEqual(['succeeded', 'succeeded']);
});

test('a failed commit of one run breaks off no call of another', async () => {
  const batch = await submitCalls([[['act_none', 'quick']], [['act_once', 'slow']]]);
  await untilActing();
  const slow = Promise.withResolvers<void>();
  const { tools, done } = world();
  const cut = house.worker({
    tools,
    hooks: (point) => {
      if (point !== 'tools.before_commit') return;
      setImmediate(() => slow.resolve());
      throw Object.assign(new Error('the connection is cut'), { code: '57P01' });
    },
  });
  await expect(runToolCalls(slowed(cut, slow.promise))).rejects.toThrow('the connection is cut');
  expect(await statesOf(batch)).toEqual(['succeeded', 'succeeded']);
  await house.drive(house.worker({ tools }), { hasten: true });
  expect(timesDone(done)).toEqual({ quick: 1, slow: 1 });
});

test('long results are stored before further calls are made, each once', async () => {
  const batch = await submitCalls(
    Array.from({ length: 60 }, (_, index) => [
      ['act_wordy', `a ${index}`],
      ['act_wordy', `b ${index}`],
    ]),
  );
  await untilActing();
  const { tools, done } = world();
  const begunWith: number[] = [];
  const worker = house.worker({
    tools: {
      async runCalls(calls, options) {
        const [stored] = await house.rows<{ runs: number }>(
          `select count(*)::int as runs from run where state = 'ready'`,
        );
        begunWith.push(stored?.runs ?? -1);
        return tools.runCalls(calls, options);
      },
    },
  });
  await runToolCalls(worker);
  expect(begunWith).toEqual([0, 25, 50]);
  expect(new Set(done.map((request) => request.call_id)).size).toBe(120);
  expect(await house.rows('select 1 from run_chunk where kind = $1', ['tools'])).toEqual([]);
  await house.drive(worker);
  expect(done).toHaveLength(120);
  expect(await house.runsOf(batch.id)).toMatchObject(batch.run_ids.map(() => ({ stop_reason: 'end_turn' })));
});

test('a cancel during one portion of a chunk takes effect before the next', async () => {
  const batch = await submitCalls(Array.from({ length: 60 }, (_, index) => [['act_wordy', `read ${index}`]]));
  await untilActing();
  const { tools, done } = world();
  const worker = house.worker({
    tools: {
      async runCalls(calls, options) {
        await house.cancel(batch.id);
        return tools.runCalls(calls, options);
      },
    },
  });
  await runToolCalls(worker);
  expect(done).toHaveLength(50);
  expect((await statesOf(batch)).slice(48, 52)).toEqual(['succeeded', 'succeeded', 'failed', 'failed']);
  expect(await resultsOf(batch.run_ids[59])).toMatchObject([
    { content: 'The batch was cancelled before this call was made.', is_error: true },
  ]);
});
