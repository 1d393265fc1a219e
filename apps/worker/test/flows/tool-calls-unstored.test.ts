import { connect, type Lease } from '@nightshift/db';
import { describe, expect, test, vi } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { createLeaseKeeper, type HeldLease } from '../../src/leases/keeper.ts';
import { type SubmittedBatch } from './house.ts';
import {
  house,
  submitCalls,
  untilActing,
  whatOf,
  world,
  timesDone,
  statesOf,
  resultsOf,
  refuse,
  openHouseForEach,
} from './tool-call-house.ts';

openHouseForEach();

/** Two runs with a call of each kind of side effects. */
const ONE_OF_EACH = [
  [['act_once', 'charge']],
  [
    ['act_idempotent', 'put'],
    ['act_none', 'look'],
  ],
] as const;

test('a cut connection before the commit loses no result, and no call is repeated', async () => {
  const batch = await submitCalls(ONE_OF_EACH);
  await untilActing();
  const { tools, done } = world();
  const cut = house.worker({
    tools,
    hooks: async (point) => {
      if (point !== 'tools.before_commit') return;
      await house.rows(
        `select pg_terminate_backend(pid, 5000) from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`,
      );
    },
  });
  await expect(runToolCalls(cut)).rejects.toThrow(/terminat|connection|ECONNRESET|EPIPE/i);
  expect(await statesOf(batch)).toEqual(['succeeded', 'succeeded', 'succeeded']);

  await house.drive(house.worker({ tools }), { hasten: true });
  expect(timesDone(done)).toEqual({ charge: 1, put: 1, look: 1 });
  expect(await resultsOf(batch.run_ids[0])).toMatchObject([{ content: 'charge is succeeded' }]);
});

const notConnected = (): Promise<never> =>
  Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));

/** A worker's database that can restart: this many connections are refused then, and open connections are cut. */
function restartable(onRefusal: () => void = () => undefined) {
  const { pool } = house.database;
  let refusals = 0;
  let refused = 0;
  const door = {
    connect: () => {
      if (refused === refusals) return pool.connect();
      refused += 1;
      onRefusal();
      return notConnected();
    },
    end: () => Promise.resolve(),
  };
  return {
    db: connect(door as unknown as typeof pool),
    refused: () => refused,
    async restart(times: number) {
      refusals = refused + times;
      await house.rows(
        `select pg_terminate_backend(pid, 5000) from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`,
      );
    },
  };
}

describe('collected results during a restart of the database', () => {
  test('are stored as soon as it answers again, and no finished call is in doubt or repeated', async () => {
    const batch = await submitCalls(ONE_OF_EACH);
    await untilActing();
    const { tools, done } = world();
    const { db, restart, refused } = restartable();
    const hooks = (point: string) => (point === 'tools.before_commit' ? restart(3) : undefined);
    const worker = house.worker({ tools, hooks });
    await expect(runToolCalls({ ...worker, db })).rejects.toThrow(/terminat|connection|ECONNRESET|EPIPE/i);
    expect(await statesOf(batch)).toEqual(['succeeded', 'succeeded', 'succeeded']);
    expect(refused()).toBe(3);

    await house.drive(house.worker({ tools }), { hasten: true });
    expect(timesDone(done)).toEqual({ charge: 1, put: 1, look: 1 });
    expect(await resultsOf(batch.run_ids[0])).toMatchObject([{ content: 'charge is succeeded' }]);
  });

  test('are stored although the lease expires before the database answers', async () => {
    const batch = await submitCalls([[['act_once', 'charge']]]);
    await untilActing();
    const { pool } = house.database;
    let afterLoss = 0;
    let held: HeldLease | undefined;
    const door = {
      connect: () => {
        if (held?.signal.aborted === true) afterLoss += 1;
        return afterLoss > 0 && afterLoss <= 3 ? notConnected() : pool.connect();
      },
      end: () => Promise.resolve(),
    };
    const db = connect(door as unknown as typeof pool);
    const lost = new AbortController();
    const sender = house.worker({
      tools: world().tools,
      hooks: (point) => {
        if (point !== 'tools.before_commit') return Promise.resolve();
        lost.abort();
        return Promise.reject(Object.assign(new Error('the connection is cut'), { code: '57P01' }));
      },
    });
    const keeper = createLeaseKeeper(db, sender.claimant);
    const hold = (lease: Lease): HeldLease => {
      const own = keeper.hold(lease);
      held = { ...own, signal: AbortSignal.any([own.signal, lost.signal]) };
      return held;
    };
    try {
      const leases = { ...keeper, hold };
      await expect(runToolCalls({ ...sender, db, leases })).rejects.toThrow('the connection is cut');
    } finally {
      keeper.close();
    }
    expect(afterLoss).toBeGreaterThan(3);
    expect(await statesOf(batch)).toEqual(['succeeded']);
  });

  test('do not delay a stop: once the leases are released, one last attempt is made', async () => {
    await submitCalls([[['act_once', 'charge']]]);
    await untilActing();
    const { db, restart, refused } = restartable(() => {
      if (refused() === 2) worker.leases.close();
    });
    const worker: FlowDeps = house.worker({
      tools: world().tools,
      hooks: (point) => (point === 'tools.before_commit' ? restart(Infinity) : undefined),
    });
    await expect(runToolCalls({ ...worker, db })).rejects.toThrow(/terminat|connection|ECONNRESET|EPIPE/i);
    expect(refused()).toBe(3);
  });

  test('are given up if it stays away, however long the lease lasts', async () => {
    const batch = await submitCalls([[['act_once', 'charge']]]);
    await untilActing();
    const { db, restart, refused } = restartable(() => vi.advanceTimersByTime(11_000));
    const worker = house.worker({
      lease_duration_ms: 600_000,
      tools: world().tools,
      hooks: (point) => (point === 'tools.before_commit' ? restart(Infinity) : undefined),
    });
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      await expect(runToolCalls({ ...worker, db })).rejects.toThrow(/terminat|connection|ECONNRESET|EPIPE/i);
    } finally {
      vi.useRealTimers();
    }
    expect(refused()).toBe(4);
    expect(await statesOf(batch)).toEqual(['running']);
  });

  test.each([
    ['the rest of its chunk is read', 60],
    ['it is handled apart from its chunk', 40],
  ])('are stored for a run whose commit timed out, if that comes before %s', async (_when, runs) => {
    await refuse('message', `new.content::text like '%arsenic%'`, 'insert', '57014');
    const batch = await submitCalls(
      Array.from({ length: runs }, (_, index) =>
        index === 3
          ? [
              ['act_once', 'charge'],
              ['act_wordy', 'ask'],
            ]
          : [['act_wordy', `read ${index}`]],
      ),
    );
    await untilActing();
    const { tools, done } = world((request) => (whatOf(request) === 'ask' ? 'arsenic' : 'lace'));
    const { db, restart } = restartable();
    const hooks = (point: string) => (point === 'tools.after_commit' ? restart(1) : undefined);
    const worker = house.worker({ tools, hooks });
    await expect(runToolCalls({ ...worker, db })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    expect((await statesOf(batch)).slice(3, 5)).toEqual(['succeeded', 'succeeded']);

    await house.rows('drop trigger arsenic on message');
    await house.drive(house.worker({ tools }), { hasten: true });
    expect(Object.values(timesDone(done))).toEqual(Array.from({ length: runs + 1 }, () => 1));
    expect(await resultsOf(batch.run_ids[3])).toMatchObject([{ content: 'lace' }, { content: 'arsenic' }]);
  });
});

describe('results that cannot be stored', () => {
  const eight = (): Promise<SubmittedBatch> =>
    submitCalls(
      Array.from({ length: 8 }, (_, index) => [
        ['act_once', `charge ${index}`],
        ['act_idempotent', `put ${index}`],
        ['act_none', `look ${index}`],
      ]),
    );

  test.each([
    ['in the message', ['message']],
    ['anywhere', ['message', 'tool_call']],
  ])('%s end their own run, and no call is made twice, its own or a neighbour’s', async (_where, tables) => {
    if (tables.includes('message'))
      await refuse('message', `new.role = 'user' and new.content::text like '%arsenic%'`);
    if (tables.includes('tool_call'))
      await refuse('tool_call', `new.held_result like '%arsenic%'`, 'insert or update');
    const batch = await eight();
    await untilActing();
    const { tools, done } = world((request) => (whatOf(request) === 'charge 3' ? 'arsenic' : 'lace'));
    await house.drive(house.worker({ tools }), { hasten: true });

    expect(Object.keys(timesDone(done))).toHaveLength(24);
    expect(done).toHaveLength(24);
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
      Array.from({ length: 8 }, (_, index) => (index === 3 ? 'poison' : 'end_turn')),
    );
    const states = await statesOf(batch);
    expect(states.filter((_, index) => Math.floor(index / 3) !== 3)).toEqual(
      Array.from({ length: 21 }, () => 'succeeded'),
    );
    expect(await resultsOf(batch.run_ids[3])).toMatchObject(
      Array.from({ length: 3 }, () => ({ is_error: true })),
    );
    expect(await house.rows('select 1 from run_chunk')).toEqual([]);
  });

  test('for a temporary reason cost no run a result or a second call', async () => {
    await refuse('message', `new.role = 'user' and new.step_number = 1`);
    const batch = await eight();
    await untilActing();
    const { tools, done } = world();
    const worker: FlowDeps = house.worker({ tools });
    expect(await runToolCalls(worker)).toMatchObject({ outcome: 'poison', left: 8, poisoned: 0 });
    await house.rows('drop trigger arsenic on message');
    await house.drive(worker, { hasten: true });
    expect(done).toHaveLength(24);
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
      Array.from({ length: 8 }, () => 'end_turn'),
    );
    expect(await resultsOf(batch.run_ids[5])).toMatchObject([
      { content: 'charge 5 is succeeded' },
      { content: 'put 5 is succeeded' },
      { content: 'look 5 is succeeded' },
    ]);
  });
});
