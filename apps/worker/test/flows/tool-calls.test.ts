import type {} from '../../../../test/global-setup.ts';
import { longestStretchOf } from '../../../../test/cpu-time.ts';
import { progressOf, stepUuid, toWireId } from '@nightshift/agent-core';
import { auditInvariants, connect, DEFAULT_PROJECT_ID, readBatchProgress, type Lease } from '@nightshift/db';
import { ToolHostUnavailableError } from '@nightshift/tool-host';
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import type { ToolReply, ToolRequest } from '../../src/tools/runner.ts';
import type { ToolPort } from '../../../../test/runners-of.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { createLeaseKeeper, type HeldLease } from '../../src/leases/keeper.ts';
import { call, LONG_CHECK, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: (
      [
        ['none', 'none', 1_000],
        ['idempotent', 'idempotent', 1_000],
        ['once', 'once', 1_000],
        ['wordy', 'none', 1_000_000],
        ['checked', 'once', 1_000],
      ] as const
    ).map(([name, side_effects, return_char_limit]) => ({
      name: `act_${name}`,
      description: 'Does something in the world.',
      input_schema: {
        type: 'object',
        properties: { what: { type: 'string', ...(name === 'checked' ? LONG_CHECK : {}) } },
        required: ['what'],
      },
      side_effects,
      return_char_limit,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

const TOOLS = ['act_none', 'act_idempotent', 'act_once', 'act_wordy', 'act_checked'] as const;
type Tool = (typeof TOOLS)[number];

/** A run for each list of calls; all calls of a list are made in one step. */
function submitCalls(runs: readonly (readonly (readonly [Tool, string])[])[]): Promise<SubmittedBatch> {
  return house.submit(
    runs.map((calls) => ({
      input: calls.map(([tool, what], index) => call(tool, { what }, index > 0)).join('\n'),
      tools: TOOLS,
    })),
  );
}

/** Takes all runs to their pending calls, in one chunk. */
async function untilActing(): Promise<void> {
  const worker = house.worker({ settings: { chunk_lines: 1_000 } });
  for (let round = 0; round < 200; round++) {
    for (const flow of [composeProviderBatch, submitProviderBatch, pollProviderBatches, ingestResults]) {
      await flow(worker);
    }
    const chunks = await house.rows(`select 1 from run_chunk where kind = 'tools'`);
    if (chunks.length > 0) {
      expect(chunks).toHaveLength(1);
      return;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error('No run came to its calls.');
}

const whatOf = (request: ToolRequest): string => (request.arguments as { what: string }).what;

function reply(
  request: ToolRequest,
  status: ToolReply['status'] = 'succeeded',
  started = true,
  result = `${whatOf(request)} is ${status}`,
): ToolReply {
  return { call_id: request.call_id, status, result, duration_ms: 1, started };
}

/** A tool host that makes its calls and records them. */
function world(resultOf?: (request: ToolRequest) => string): { tools: ToolPort; done: ToolRequest[] } {
  const done: ToolRequest[] = [];
  return {
    done,
    tools: {
      async runCalls(calls) {
        done.push(...calls);
        return calls.map((request) => reply(request, 'succeeded', true, resultOf?.(request)));
      },
    },
  };
}

const timesDone = (done: readonly ToolRequest[]): Record<string, number> => {
  const times: Record<string, number> = {};
  for (const request of done) times[whatOf(request)] = (times[whatOf(request)] ?? 0) + 1;
  return times;
};

async function statesOf(batch: SubmittedBatch): Promise<readonly string[]> {
  const rows = await house.rows<{ state: string }>(
    `select c.state from tool_call c join run r on r.id = c.run_id where r.batch_id = $1
      order by r.ordinal, c.step_number, c.call_index`,
    [batch.id],
  );
  return rows.map((row) => row.state);
}

/** Reads the results that the model received for the calls of a run. */
async function resultsOf(
  runId: string | undefined,
): Promise<readonly { content: string; is_error?: boolean }[]> {
  const [row] = await house.rows<{ content: { content: string; is_error?: boolean }[] }>(
    `select content from message where run_id = $1 and role = 'user' and step_number = 1`,
    [runId],
  );
  return row?.content ?? [];
}

test('runs leave at once when the last chunk of calls has ended', async () => {
  await submitCalls([[['act_none', 'one']], [['act_none', 'two']]]);
  await untilActing();
  await house.rows(`insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
                    select gen_random_uuid(), project_id, kind, run_ids[2:2], next_due_at from run_chunk`);
  await house.rows('update run_chunk set run_ids = run_ids[1:1] where cardinality(run_ids) = 2');
  const worker = house.worker({ tools: world().tools, settings: { gather_window_ms: 3_600_000 } });
  expect(await runToolCalls(worker)).toMatchObject({ runs: 1, calls: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: false });
  expect(await runToolCalls(worker)).toMatchObject({ runs: 1, calls: 1 });
  expect(await composeProviderBatch(worker)).toMatchObject({ worked: true, requests: 2 });
});

test('a tool receives the API ids of its run and agent, and a stable key', async () => {
  const batch = await submitCalls([[['act_once', 'charge']]]);
  await untilActing();
  const { tools, done } = world();
  await house.drive(house.worker({ tools }));
  const [run_id] = batch.run_ids;
  const [stored] = await house.rows<{ agent_id: string }>('select agent_id from run where id = $1', [run_id]);
  const key = `${stepUuid({ run_id: run_id!, number: 1, attempt: 0 })}/0`;
  expect(done).toMatchObject([
    {
      run_id: toWireId('run', run_id!),
      agent_id: toWireId('agent', stored!.agent_id),
      call_id: key,
      idempotency_key: key,
    },
  ]);
});

describe('a crash', () => {
  test('leaves no more calls in doubt than one wave, and loses no finished call', async () => {
    const batch = await submitCalls(
      Array.from({ length: 150 }, (_, index) => [
        ['act_once', `charge ${index}`],
        ['act_none', `look ${index}`],
      ]),
    );
    await untilActing();
    const first = world();
    const second = Promise.withResolvers<void>();
    const asked: number[] = [];
    const doomed = house.worker({
      owner: 'doomed',
      tools: {
        runCalls(calls, options) {
          asked.push(calls.length);
          if (asked.length === 1) return first.tools.runCalls(calls, options);
          first.done.push(...calls);
          second.resolve();
          return new Promise(() => undefined);
        },
      },
    });
    await Promise.race([second.promise, runToolCalls(doomed)]);
    // Calls without side effects are not at risk, and wait for no wave.
    expect(asked).toEqual([150 + 64, 64]);
    // Cut off from its leases without notice: its cleanup does not run.
    await house.rows(
      `update run_chunk set lease_until = app_now() - interval '1 millisecond' where lease_owner = 'doomed'`,
    );
    const { tools, done } = world();
    await house.drive(house.worker({ tools }), { hasten: true });

    const times = timesDone([...first.done, ...done]);
    expect(Object.keys(times)).toHaveLength(300);
    expect(Object.values(times).every((count) => count === 1)).toBe(true);
    const states = (await statesOf(batch)).filter((_, index) => index % 2 === 0);
    expect(states.filter((state) => state === 'unknown')).toHaveLength(64);
    expect(states.filter((state) => state === 'succeeded')).toHaveLength(86);
    expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
  });
});

describe('a worker that stops during its calls', () => {
  /** Makes the calls named in `ended`, begins the calls in `broken`, and answers on its stop signal. */
  function interrupted(ended: readonly string[], broken: readonly string[]) {
    const begun = Promise.withResolvers<void>();
    const done: ToolRequest[] = [];
    const tools: ToolPort = {
      async runCalls(calls, options) {
        const cut = Promise.withResolvers<void>();
        options?.signal?.addEventListener('abort', () => cut.resolve());
        done.push(...calls.filter((request) => [...ended, ...broken].includes(whatOf(request))));
        begun.resolve();
        await cut.promise;
        return calls.map((request) => {
          if (ended.includes(whatOf(request))) return reply(request);
          return reply(request, 'crashed', broken.includes(whatOf(request)));
        });
      },
    };
    return { tools, done, begun: begun.promise };
  }

  test('stores its results: finished calls are not repeated, pending calls are made, only interrupted calls are unknown', async () => {
    const batch = await submitCalls([
      ...Array.from({ length: 10 }, (_, index) => [['act_once', `charge ${index}`] as const]),
      [
        ['act_idempotent', 'put and done'],
        ['act_idempotent', 'put and broken'],
        ['act_none', 'look'],
      ],
    ]);
    await untilActing();
    const ended = [...Array.from({ length: 7 }, (_, index) => `charge ${index}`), 'put and done'];
    const first = interrupted(ended, ['charge 7', 'put and broken']);
    const stopped = house.worker({ owner: 'stopped', tools: first.tools });
    const working = runToolCalls(stopped);
    await first.begun;
    stopped.leases.close();
    expect(await working).toMatchObject({ worked: true, outcome: 'given_back' });
    expect(
      await house.rows(
        `select lease_owner, next_due_at <= app_now() as due from run_chunk where kind = 'tools'`,
      ),
    ).toEqual([{ lease_owner: null, due: true }]);
    expect(await statesOf(batch)).toEqual([
      ...Array.from({ length: 7 }, () => 'succeeded'),
      'unknown',
      'pending',
      'pending',
      'succeeded',
      'running',
      'pending',
    ]);

    const { tools, done } = world();
    await house.drive(house.worker({ tools }));
    expect(done.map(whatOf).sort()).toEqual(['charge 8', 'charge 9', 'look', 'put and broken']);
    // A repeated call has the same key.
    const keys = [...first.done, ...done].filter((request) => whatOf(request) === 'put and broken');
    expect(new Set(keys.map((request) => request.idempotency_key)).size).toBe(1);
    expect(keys).toHaveLength(2);
    const states = await statesOf(batch);
    expect(states.filter((state) => state !== 'succeeded')).toEqual(['unknown']);
    expect(await resultsOf(batch.run_ids[3])).toMatchObject([{ content: 'charge 3 is succeeded' }]);
    expect(await resultsOf(batch.run_ids[7])).toMatchObject([
      {
        content: expect.stringMatching(/may or may not have taken effect.*charge 7 is crashed/),
        is_error: true,
      },
    ]);
    expect(await house.rows('select 1 from tool_call where held_result is not null')).toEqual([]);
  });

  test('stores its results when its tool host is gone for good, and makes the rest once a host is back', async () => {
    const batch = await submitCalls([
      [['act_once', 'charged']],
      [['act_once', 'charge broken']],
      [['act_once', 'charge not begun']],
      [['act_idempotent', 'put broken']],
      [['act_none', 'look not begun']],
    ]);
    await untilActing();
    const away = house.worker({
      tools: {
        runCalls: (calls) =>
          Promise.reject(
            new ToolHostUnavailableError(
              'the tool host does not come up',
              calls.map((request) => {
                const what = whatOf(request);
                const status = what === 'charged' ? 'succeeded' : 'crashed';
                return { ...reply(request, status, !what.includes('not begun')), truncated: false };
              }),
            ),
          ),
      },
    });
    expect(await runToolCalls(away)).toMatchObject({
      ...{ outcome: 'put off', put_off: 4, ended: 0 },
      reason: expect.stringContaining('The tool host does not take calls.') as string,
    });
    expect(await statesOf(batch)).toEqual(['succeeded', 'unknown', 'pending', 'running', 'pending']);

    const { tools, done } = world();
    await house.drive(house.worker({ tools }), { hasten: true });
    expect(done.map(whatOf).sort()).toEqual(['charge not begun', 'look not begun', 'put broken']);
    expect(await resultsOf(batch.run_ids[0])).toMatchObject([{ content: 'charged is succeeded' }]);
    expect((await statesOf(batch)).filter((state) => state !== 'succeeded')).toEqual(['unknown']);
  });

  test('changes nothing after its chunk was taken over', async () => {
    const batch = await submitCalls([[['act_once', 'charge']]]);
    await untilActing();
    const first = interrupted(['charge'], []);
    const zombie = house.worker({ owner: 'zombie', tools: first.tools });
    const working = runToolCalls(zombie);
    await first.begun;
    await house.rows(
      `update run_chunk set lease_until = app_now() - interval '1 millisecond' where lease_owner = 'zombie'`,
    );
    const { tools, done } = world();
    await house.drive(house.worker({ tools }));
    zombie.leases.close();
    await expect(working).rejects.toMatchObject({ code: 'fenced' });
    expect(done).toEqual([]);
    expect(await statesOf(batch)).toEqual(['unknown']);
  });
});

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

/** Refuses rows, by default as rows that cannot be stored. */
const refuse = (table: string, test: string, when = 'insert', errcode = '22P05'): Promise<unknown[]> =>
  house.rows(`
    create function refuse_${table}() returns trigger language plpgsql as $$
    begin
      if ${test} then raise exception 'no arsenic' using errcode = '${errcode}'; end if;
      return new;
    end $$;
    create trigger arsenic before ${when} on ${table} for each row execute function refuse_${table}()`);

/** The error of a connection while the database is away. */
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

test('calls of a batch being cancelled are not made, and its runs end as cancelled with every call answered', async () => {
  const batch = await submitCalls([
    [
      ['act_once', 'charge'],
      ['act_idempotent', 'put'],
      ['act_none', 'look'],
    ],
  ]);
  await untilActing();
  // A call had been begun by a worker that crashed.
  await house.rows(
    `update tool_call set state = 'running', started_at = app_now() where tool_name = 'act_idempotent'`,
  );
  await house.cancel(batch.id);
  const { tools, done } = world();
  await house.drive(house.worker({ tools }), { hasten: true });
  expect(done).toEqual([]);
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled', stop_reason: 'cancelled' }]);
  expect(await statesOf(batch)).toEqual(['failed', 'unknown', 'failed']);
  const notMade = { content: 'The batch was cancelled before this call was made.', is_error: true };
  expect(await resultsOf(batch.run_ids[0])).toMatchObject([
    notMade,
    { content: expect.stringMatching(/may or may not have taken effect/), is_error: true },
    notMade,
  ]);
});

test('a cancellation during a chunk stops the calls that have not begun', async () => {
  const batch = await submitCalls(
    Array.from({ length: 70 }, (_, index) => [['act_once', `charge ${index}`] as const]),
  );
  await untilActing();
  const { tools, done } = world();
  await house.drive(
    house.worker({
      tools: {
        async runCalls(calls, options) {
          await house.cancel(batch.id);
          return tools.runCalls(calls, options);
        },
      },
    }),
    { hasten: true },
  );
  expect(done).toHaveLength(64);
  const states = await statesOf(batch);
  expect(states.filter((state) => state === 'succeeded')).toHaveLength(64);
  expect(states.filter((state) => state === 'failed')).toHaveLength(6);
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'cancelled')).toBe(true);
});

test('a once call that timed out after its start is unknown, and the model is told', async () => {
  const batch = await submitCalls([
    [['act_once', 'charge']],
    [['act_once', 'too late to begin']],
    [['act_idempotent', 'put']],
  ]);
  await untilActing();
  const worker = house.worker({
    tools: {
      runCalls: (calls) =>
        Promise.resolve(
          calls.map((request) => reply(request, 'timed_out', whatOf(request) !== 'too late to begin')),
        ),
    },
  });
  await house.drive(worker);
  expect(await statesOf(batch)).toEqual(['unknown', 'failed', 'failed']);
  expect(
    await house.rows(
      `select sum(failed_tool_calls)::int as failed, sum(unknown_tool_calls)::int as unknown from batch_tally where batch_id = $1`,
      [batch.id],
    ),
  ).toEqual([{ failed: 3, unknown: 1 }]);
  const [charge] = await resultsOf(batch.run_ids[0]);
  expect(charge?.content).toMatch(/may or may not have taken effect.*charge is timed_out/);
  expect(await resultsOf(batch.run_ids[1])).toMatchObject([
    { content: 'too late to begin is timed_out', is_error: true },
  ]);
});

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

describe('places of calls that must not be repeated', () => {
  /** The runs of a chunk with more such calls than may be in doubt. */
  const many = (): Promise<SubmittedBatch> =>
    submitCalls(Array.from({ length: 70 }, (_, index) => [['act_once', `charge ${index}`] as const]));

  test('are free again when their batch was cancelled between the read and the journal', async () => {
    const batch = await many();
    await untilActing();
    const { tools, done } = world();
    const worker = house.worker({ tools });
    const cancelling: FlowDeps = {
      ...worker,
      callSlots: {
        async run(work) {
          const result = await work();
          await house.cancel(batch.id);
          return result;
        },
      },
    };
    await runToolCalls(cancelling);
    await house.drive(worker, { hasten: true });
    expect(done).toEqual([]);
    expect((await statesOf(batch)).every((state) => state === 'failed')).toBe(true);
  });

  test('are free again when the results of their runs cannot be stored', async () => {
    await refuse('message', `new.role = 'user' and new.step_number = 1`);
    const batch = await many();
    await untilActing();
    const { tools, done } = world();
    const worker = house.worker({ tools });
    expect(await runToolCalls(worker)).toMatchObject({ outcome: 'poison', left: 70, poisoned: 0 });
    await house.rows('drop trigger arsenic on message');
    await house.drive(worker, { hasten: true });
    expect(done).toHaveLength(70);
    expect(new Set((await house.runsOf(batch.id)).map((run) => run.stop_reason))).toEqual(
      new Set(['end_turn']),
    );
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

/** Holds back the calls named `slow` until `whenSlow`. */
function slowed(worker: FlowDeps, whenSlow: Promise<void>): FlowDeps {
  const { tools } = worker;
  return {
    ...worker,
    tools: {
      ...tools,
      async run(request, options) {
        if (whatOf(request) === 'slow') await whenSlow;
        return tools.run(request, options);
      },
    },
  };
}

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

test('a chunk that crashes workers comes back in halves, and a single run that crashes them ends', async () => {
  const batch = await submitCalls([[['act_none', 'harmless']], [['act_none', 'deadly']]]);
  await untilActing();
  const { tools, done } = world();
  const worker = house.worker({ tools });
  const dieWithAll = () =>
    house.rows(
      `update run_chunk set lease_owner = 'dead', lease_until = app_now() - interval '1 second', lease_epoch = 9,
              takeovers = 2, next_due_at = app_now()`,
    );
  await dieWithAll();
  expect(await runToolCalls(worker)).toMatchObject({ outcome: 'halved', runs: 2 });
  expect(done).toEqual([]);
  await house.rows('delete from run_chunk where run_ids[1] = $1', [batch.run_ids[0]]);
  for (const outcome of ['halved', 'halved', 'poison']) {
    await dieWithAll();
    expect(await runToolCalls(worker)).toMatchObject({ outcome, runs: 1 });
  }
  expect(done).toEqual([]);
  expect((await house.runsOf(batch.id))[1]).toMatchObject({ state: 'failed', stop_reason: 'poison' });
});

test('a chunk whose arguments take long to check does not stop the renewal of leases', async () => {
  const texts = Array.from({ length: 40 }, (_, index) => `${index} `.padEnd(990, 'x'));
  const batch = await submitCalls(texts.map((text) => [['act_checked', text]]));
  await untilActing();
  const { tools, done } = world();
  const worker = house.worker({ tools });
  const stretch = await longestStretchOf(async () => {
    expect(await runToolCalls(worker)).toMatchObject({ calls: 40, ended: 0 });
  });
  expect(stretch).toBeLessThan(0.25);
  expect(timesDone(done)).toEqual(Object.fromEntries(texts.map((text) => [text, 1])));
  expect(await house.runsOf(batch.id)).toMatchObject(texts.map(() => ({ state: 'ready' })));
});
