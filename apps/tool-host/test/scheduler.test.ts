import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test, vi } from 'vitest';
import type { ToolManifest } from '../src/contract.ts';
import type { LiveCall } from '../src/live-call.ts';
import {
  markDone,
  markEntered,
  markLoading,
  markReturned,
  markLeftover,
  markThread,
} from '../src/progress.ts';
import type { HostSettings, OutcomeFrame } from '../src/protocol.ts';
import { createScheduler, type Scheduler } from '../src/scheduler.ts';
import { startTaskRun } from '../src/task-run.ts';
import type { ThreadReport, ThreadTask } from '../src/task.ts';
import type { Threads } from '../src/threads.ts';
import { linesOf, testDirectory, TOOLS_DIR, until } from './support/tool-hosts.ts';

const SETTINGS: HostSettings = {
  tools_dirs: [],
  threads: 2,
  calls_in_flight_per_thread: 16,
  thread_memory_mb: 256,
  thread_idle_ms: 30_000,
  load_timeout_ms: 10_000,
};

/** Creates two fast and four slow threads that handle tasks by the given function. */
function threadsThat(run: Threads['run']): Threads {
  return {
    lanes: { fast: 2, slow: 4 },
    threadsMax: 6,
    run,
    inspect: () => Promise.reject(new Error('unexpected')),
    warm: () => Promise.resolve(),
    whenExited: () => Promise.resolve(),
    memoryBytes: () => Promise.resolve(undefined),
    stuckThreads: () => 0,
  };
}

/** Builds the report of a task whose calls, of these ids, all succeeded at once. */
function allSucceeded(task: number, ids: readonly number[]): ThreadReport {
  return {
    task,
    indexes: [...ids.keys()],
    durations_ms: ids.map(() => 1),
    busy_ms: ids.map(() => 1),
    outcomes_json: ids.map((id) => `{"id":${id},"status":"succeeded"}`).join(','),
    given_back: [],
    not_imported: [],
    stop_thread: false,
  };
}

/** Creates a scheduler with these tools, and records its outcomes and log. */
function schedulerWith(
  tools: readonly Pick<ToolManifest, 'name' | 'file' | 'side_effects'>[],
  threads: Threads,
): { readonly scheduler: Scheduler; readonly outcomes: OutcomeFrame[]; readonly log: string[] } {
  const outcomes: OutcomeFrame[] = [];
  const log: string[] = [];
  const scheduler = createScheduler(SETTINGS, {
    sendOutcomes: (json) => outcomes.push(...(JSON.parse(`[${json}]`) as OutcomeFrame[])),
    sendStarting: () => Promise.resolve(),
    log: (line) => log.push(line),
    giveUp: () => {},
  });
  const about = { description: 'A tool.', parameters: { type: 'object' } };
  const manifests = tools.map((tool) => ({
    ...tool,
    ...about,
    timeout_ms: 30_000,
    result_char_limit: 1_000,
  }));
  scheduler.use({ tools: manifests, problems: [] }, threads);
  return { scheduler, outcomes, log };
}

test.for([
  ['none', 16],
  ['once', 4],
] as const)(
  'of an unmeasured tool (%s) one task of %i calls runs alone at first, then as many as the slow lane takes',
  async ([side_effects, size]) => {
    vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
    try {
      const tasks: ThreadTask[] = [];
      const threads = threadsThat((task) => {
        tasks.push(task);
        return new Promise(() => {});
      });
      const { scheduler } = schedulerWith([{ name: 'new', file: '/new.ts', side_effects }], threads);
      scheduler.enqueue(
        Array.from({ length: 200 }, (_, id) => [id, 'new', 0, 2] as const),
        Buffer.from('{}'.repeat(200)),
      );
      await vi.advanceTimersByTimeAsync(0);
      expect(tasks.map((task) => task.tool_of_call.length)).toEqual([size]);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(tasks.map((task) => task.tool_of_call.length)).toEqual([size, size, size, size]);
    } finally {
      vi.useRealTimers();
    }
  },
);

test('calls that were not entered do not count towards the time of their tool', async () => {
  const tasks: number[] = [];
  const threads = threadsThat(({ task, tool_of_call }) => {
    tasks.push(tool_of_call.length);
    if (tasks.length > 1) return new Promise(() => {});
    const indexes = [...tool_of_call.keys()];
    return Promise.resolve({
      task,
      indexes,
      durations_ms: indexes.map(() => null),
      busy_ms: indexes.map(() => 0),
      outcomes_json: indexes.map((id) => `{"id":${id}}`).join(','),
      given_back: [],
      not_imported: [],
      stop_thread: false,
    });
  });
  const { scheduler, outcomes } = schedulerWith(
    [{ name: 'new', file: '/new.ts', side_effects: 'none' }],
    threads,
  );
  const enqueue = (count: number): void => {
    scheduler.enqueue(
      Array.from({ length: count }, (_, id) => [id, 'new', 0, 2] as const),
      Buffer.from('{}'.repeat(count)),
    );
  };
  enqueue(4);
  await until(() => outcomes.length === 4);
  enqueue(40);
  expect(tasks, 'as many as of an unmeasured tool').toEqual([4, 16]);
});

test('a fast tool does not wait behind another with a constant supply of calls', async () => {
  const tasks: { readonly names: readonly (string | undefined)[]; readonly end: () => void }[] = [];
  const threads = threadsThat(({ task, tools, tool_of_call }) => {
    const { promise, resolve } = Promise.withResolvers<ThreadReport>();
    const indexes = [...tool_of_call.keys()];
    const report: ThreadReport = {
      task,
      indexes,
      durations_ms: indexes.map(() => 1),
      busy_ms: indexes.map(() => 1),
      outcomes_json: indexes.map((id) => `{"id":${id}}`).join(','),
      given_back: [],
      not_imported: [],
      stop_thread: false,
    };
    tasks.push({
      names: tool_of_call.map((tool) => tools[tool]?.name),
      end: () => {
        resolve(report);
      },
    });
    return promise;
  });
  const { scheduler, outcomes } = schedulerWith(
    ['many', 'few'].map((name) => ({ name, file: `/${name}.ts`, side_effects: 'none' })),
    threads,
  );
  const enqueue = (names: readonly string[]): void => {
    scheduler.enqueue(
      names.map((name, id) => [id, name, 0, 2] as const),
      Buffer.from('{}'.repeat(names.length)),
    );
  };
  enqueue(['many', 'few']);
  for (const { end } of tasks) end();
  await until(() => outcomes.length === 2);
  enqueue([...Array<string>(200).fill('many'), 'few']);
  expect(tasks.slice(2).map(({ names }) => [...new Set(names)])).toEqual([['many'], ['few', 'many']]);
});

test('a call cancelled before its thread starts its task is not begun, and its neighbours are', async () => {
  const ledger = `${await testDirectory()}/ledger`;
  const posted = Promise.withResolvers<void>();
  const thread = Promise.withResolvers<void>();
  const threads = threadsThat(async (task) => {
    posted.resolve();
    await thread.promise;
    const callInProgress = new AsyncLocalStorage<LiveCall>();
    return startTaskRun(task, { threadId: 1, callInProgress, post: scheduler.onReport }).finish();
  });
  const file = `${TOOLS_DIR}/pay_once.ts`;
  const { scheduler, outcomes } = schedulerWith([{ name: 'pay_once', file, side_effects: 'once' }], threads);
  const calls = [1, 2].map((id) =>
    JSON.stringify({ id, arguments: { ledger }, idempotency_key: `key-${id}` }),
  );
  scheduler.enqueue(
    calls.map((json, index) => [index + 1, 'pay_once', 0, json.length] as const),
    Buffer.from(calls.join('')),
  );
  await posted.promise;
  scheduler.cancel([1]);
  thread.resolve();
  await until(() => outcomes.length === 2);
  expect(outcomes).toMatchObject([
    {
      id: 1,
      status: 'crashed',
      started: false,
      result: 'AbortError: the caller gave up before the call started',
    },
    { id: 2, status: 'succeeded', started: true },
  ]);
  expect(await linesOf(ledger)).toEqual(['key-2']);
});

test('a call cancelled before its repeat counts as started', async () => {
  let posted = 0;
  const given = Promise.withResolvers<void>();
  const threads = threadsThat(async (task) => {
    const number = (posted += 1);
    if (number === 1) {
      const progress = { cells: task.cells, slots: task.slots };
      markThread(progress, 1);
      for (let call = 0; call < 6; call += 1) markEntered(progress, call, call);
      markDone(progress, 5, 5);
      markReturned(progress);
      throw new Error('the thread is gone');
    }
    await given.promise;
    if (number === 2) throw new Error('the thread is gone');
    const callInProgress = new AsyncLocalStorage<LiveCall>();
    return startTaskRun(task, { threadId: 1, callInProgress, post: scheduler.onReport }).finish();
  });
  const file = `${TOOLS_DIR}/note_idempotent.ts`;
  const { scheduler, outcomes } = schedulerWith(
    [{ name: 'note_idempotent', file, side_effects: 'idempotent' }],
    threads,
  );
  const ledger = `${await testDirectory()}/ledger`;
  const calls = [1, 2, 3, 4, 5, 6].map((id) => JSON.stringify({ id, arguments: { ledger } }));
  scheduler.enqueue(
    calls.map((json, index) => [index + 1, 'note_idempotent', 0, json.length] as const),
    Buffer.from(calls.join('')),
  );
  await until(() => posted === 5);
  scheduler.cancel([1, 2, 3, 4, 5, 6]);
  expect(outcomes.map(({ id }) => id).sort(), 'two of them have no thread again yet').toEqual([5, 6]);
  given.resolve();
  await until(() => outcomes.length === 6);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({
      status: 'crashed',
      started: true,
      result: 'AbortError: the caller gave up',
    });
  }
  expect(await linesOf(ledger)).toEqual([]);
});

test.for([
  ['has not entered it yet', false],
  ['ends by code of an ended call', true],
] as const)('a call has its repeat alone again when its thread %s', async ([, isStruck]) => {
  const tries = new Map<number, number>();
  const tasks: number[] = [];
  const threads = threadsThat(({ task, cells, slots, calls_json }) => {
    const ids = (JSON.parse(calls_json) as readonly { readonly id: number }[]).map(({ id }) => id);
    const nth = (tries.get(ids[0] as number) ?? 0) + 1;
    for (const id of ids) tries.set(id, nth);
    tasks.push(ids.length);
    const indexes = [...ids.keys()];
    const progress = { cells, slots };
    markThread(progress, 1);
    if (nth === 3) {
      return Promise.resolve(allSucceeded(task, ids));
    }
    if (nth === 1 || isStruck) for (const index of indexes) markEntered(progress, index, index);
    markReturned(progress);
    if (nth === 2 && isStruck) markLeftover(progress);
    return Promise.reject(new Error('the thread is gone'));
  });
  const { scheduler, outcomes } = schedulerWith(
    [{ name: 'any', file: '/any.ts', side_effects: 'none' }],
    threads,
  );
  const calls = [1, 2, 3, 4].map((id) => `{"id":${id}}`);
  scheduler.enqueue(
    calls.map((json, index) => [index + 1, 'any', 0, json.length] as const),
    Buffer.from(calls.join('')),
  );
  await until(() => outcomes.length === 4);
  expect(outcomes.map(({ status }) => status)).toEqual(calls.map(() => 'succeeded'));
  expect(tasks).toEqual([4, 1, 1, 1, 1, 1, 1, 1, 1]);
});

test('a call whose neighbours end their thread in sequence runs after the last of them', async () => {
  const bad = new Set(Array.from({ length: 40 }, (_, index) => index + 1));
  const threads = threadsThat(({ task, cells, slots, calls_json }) => {
    const ids = (JSON.parse(calls_json) as readonly { readonly id: number }[]).map(({ id }) => id);
    const progress = { cells, slots };
    markThread(progress, 1);
    const culprit = ids.findIndex((id) => bad.delete(id));
    if (culprit !== -1) {
      markEntered(progress, culprit, 0);
      return Promise.reject(new Error('the thread is gone'));
    }
    return Promise.resolve(allSucceeded(task, ids));
  });
  const { scheduler, outcomes } = schedulerWith(
    [{ name: 'any', file: '/any.ts', side_effects: 'none' }],
    threads,
  );
  const enqueue = (ids: readonly number[]): void => {
    const calls = ids.map((id) => `{"id":${id}}`);
    scheduler.enqueue(
      calls.map((json, index) => [ids[index] as number, 'any', 0, json.length] as const),
      Buffer.from(calls.join('')),
    );
  };
  // Measured as fast, so that all the others share a task.
  enqueue([0]);
  await until(() => outcomes.length === 1);
  enqueue([...bad, 101, 102, 103]);
  await until(() => outcomes.length === 44);
  const succeeded = outcomes.filter(({ status }) => status === 'succeeded');
  expect(succeeded.map(({ id }) => id).sort()).toEqual([0, 101, 102, 103]);
});

test('calls that a thread gives back run again alone, except a call cancelled meanwhile', async () => {
  const tasks: number[][] = [];
  const computed = Promise.withResolvers<void>();
  const threads = threadsThat(async ({ task, cells, slots, calls_json }) => {
    const ids = (JSON.parse(calls_json) as readonly { readonly id: number }[]).map(({ id }) => id);
    tasks.push(ids);
    const indexes = [...ids.keys()];
    const isFirst = tasks.length === 1;
    markThread({ cells, slots }, 1);
    for (const index of indexes) markEntered({ cells, slots }, index, index);
    markReturned({ cells, slots });
    if (isFirst) await computed.promise;
    return {
      task,
      indexes: isFirst ? [] : indexes,
      durations_ms: isFirst ? [] : [1],
      busy_ms: isFirst ? [] : [1],
      outcomes_json: isFirst ? '' : `{"id":${ids[0]},"status":"succeeded"}`,
      given_back: isFirst ? indexes : [],
      not_imported: [],
      stop_thread: false,
    };
  });
  const { scheduler, outcomes } = schedulerWith(
    [{ name: 'any', file: '/any.ts', side_effects: 'none' }],
    threads,
  );
  const calls = [1, 2, 3].map((id) => `{"id":${id}}`);
  scheduler.enqueue(
    calls.map((json, index) => [index + 1, 'any', 0, json.length] as const),
    Buffer.from(calls.join('')),
  );
  scheduler.cancel([2]);
  computed.resolve();
  await until(() => outcomes.length === 3);
  expect(tasks).toEqual([[1, 2, 3], [1], [3]]);
  expect(new Map(outcomes.map(({ id, status }) => [id, status]))).toEqual(
    new Map([
      [1, 'succeeded'],
      [2, 'crashed'],
      [3, 'succeeded'],
    ]),
  );
});

test('the log names no tool of a task whose thread is ended by code of an ended call', async () => {
  const threads = threadsThat(({ cells, slots }) => {
    markThread({ cells, slots }, 1);
    markLeftover({ cells, slots });
    return Promise.reject(new Error('words'));
  });
  const { scheduler, log } = schedulerWith([{ name: 'any', file: '/any.ts', side_effects: 'none' }], threads);
  scheduler.enqueue([[1, 'any', 0, 2]], Buffer.from('{}'));
  await until(() => log.length > 0);
  expect(log[0]).toBe('a thread ended: uncaught error (code left running by an ended call)');
});

test('calls that wait in a stuck thread run in another', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  try {
    let taken = 0;
    const threads = threadsThat(({ cells, slots }, signal) => {
      taken += 1;
      markThread({ cells, slots }, taken);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    });
    const { scheduler } = schedulerWith([{ name: 'any', file: '/any.ts', side_effects: 'once' }], threads);
    scheduler.enqueue([[1, 'any', 0, 2]], Buffer.from('{}'));
    await vi.advanceTimersByTimeAsync(4_000);
    expect(taken).toBe(1);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(taken).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

test('other tools take turns with any number of calls that are repeated alone', async () => {
  const tasks: { readonly name: string | undefined; readonly end: () => void }[] = [];
  const threads = threadsThat(({ task, tools, calls_json }) => {
    const { promise, resolve } = Promise.withResolvers<ThreadReport>();
    const ids = (JSON.parse(calls_json) as readonly { readonly id: number }[]).map(({ id }) => id);
    const end = (): void => {
      resolve({
        task,
        indexes: [...ids.keys()],
        durations_ms: ids.map(() => 1_000),
        busy_ms: ids.map(() => 0),
        outcomes_json: ids.map((id) => `{"id":${id}}`).join(','),
        given_back: [],
        not_imported: [],
        stop_thread: false,
      });
    };
    tasks.push({ name: tools[0]?.name, end });
    return promise;
  });
  const names = [...Array<string>(20).fill('killer'), 'one', 'two', 'three'];
  const { scheduler, outcomes } = schedulerWith(
    [...new Set(names)].map((name) => ({ name, file: `/${name}.ts`, side_effects: 'none' })),
    threads,
  );
  const calls = names.map((_, id) => `{"id":${id}}`);
  scheduler.enqueue(
    calls.map((json, id) =>
      names[id] === 'killer' ? [id, 'killer', 0, json.length, 1] : [id, names[id] as string, 0, json.length],
    ),
    Buffer.from(calls.join('')),
  );
  expect(tasks.map(({ name }) => name)).toEqual(['killer', 'one', 'killer', 'two']);
  for (const ended of [1, 2, 3]) {
    tasks[ended - 1]?.end();
    await until(() => outcomes.length === ended);
  }
  expect(tasks.slice(4).map(({ name }) => name)).toEqual(['killer', 'three', 'killer']);
});

test('a fast tool has its module tried on a fast thread when all slow threads are busy', async () => {
  const tasks: string[] = [];
  const threads = threadsThat(({ task, tools, calls_json, cells, slots }) => {
    const name = tools[0]?.name ?? '';
    tasks.push(name);
    if (name !== 'fragile') return new Promise(() => {});
    const progress = { cells, slots };
    markThread(progress, 1);
    if (tasks.length === 6) {
      markLoading(progress, 0);
      return Promise.reject(new Error('too many open files'));
    }
    const ids = (JSON.parse(calls_json) as readonly { readonly id: number }[]).map(({ id }) => id);
    return Promise.resolve({
      task,
      indexes: [...ids.keys()],
      durations_ms: ids.map(() => 1),
      busy_ms: ids.map(() => 1),
      outcomes_json: ids.map((id) => `{"id":${id}}`).join(','),
      given_back: [],
      not_imported: [],
      stop_thread: false,
    });
  });
  const hanging = ['a', 'b', 'c', 'd'];
  const { scheduler, outcomes } = schedulerWith(
    ['fragile', ...hanging].map((name) => ({ name, file: `/${name}.ts`, side_effects: 'none' })),
    threads,
  );
  const enqueue = (id: number, name: string): void => {
    const json = `{"id":${id}}`;
    scheduler.enqueue([[id, name, 0, json.length]], Buffer.from(json));
  };
  enqueue(0, 'fragile');
  await until(() => outcomes.length === 1);
  for (const [index, name] of hanging.entries()) enqueue(index + 1, name);
  enqueue(5, 'fragile');
  await until(() => outcomes.length === 2);
  expect(tasks).toEqual(['fragile', ...hanging, 'fragile', 'fragile']);
  expect(outcomes.map(({ id }) => id)).toEqual([0, 5]);
});

test('a module is on trial only until a call of it is running', async () => {
  const tasks: number[] = [];
  const threads = threadsThat(({ cells, slots, tool_of_call }) => {
    tasks.push(tool_of_call.length);
    const progress = { cells, slots };
    markThread(progress, tasks.length);
    if (tasks.length === 1) {
      markLoading(progress, 0);
      return Promise.reject(new Error('too many open files'));
    }
    for (let call = 0; call < slots; call += 1) markEntered(progress, call, call);
    markReturned(progress);
    return new Promise(() => {});
  });
  const { scheduler } = schedulerWith([{ name: 'any', file: '/any.ts', side_effects: 'none' }], threads);
  scheduler.enqueue(
    Array.from({ length: 40 }, (_, id) => [id, 'any', 0, 2] as const),
    Buffer.from('{}'.repeat(40)),
  );
  await until(() => tasks.length === 4);
  expect(tasks).toEqual([16, 16, 16, 8]);
});
