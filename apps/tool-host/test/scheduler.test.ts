import { afterEach, expect, test, vi } from 'vitest';
import type { ToThread } from '../src/thread-messages.ts';
import { schedulerWith, toolNamed, type FakeThread } from './support/fake-threads.ts';
import { until } from './support/tool-hosts.ts';

afterEach(() => void vi.useRealTimers());

const times = (count: number, name: string): string[] => Array<string>(count).fill(name);
const namesOf = (threads: readonly FakeThread[]): string[] => threads.map(({ tool }) => tool.name);
const sizesOf = (threads: readonly FakeThread[]): number[] => threads.map(({ calls }) => calls.length);

/** Plays a thread that stops each call when it is told to. */
function stopAtOnce(thread: FakeThread, message: ToThread): void {
  if (message.kind === 'stop') thread.say({ kind: 'step', running: 0, ended: message.id, outcome: '' });
}

/** Enters all calls of the thread, which then yield. */
function enterAll(thread: FakeThread): void {
  for (const call of thread.calls) thread.enter(call);
  thread.enter(0);
}

test('fast calls fill one thread before the next, slow calls are spread', () => {
  const tools = [toolNamed('quick'), toolNamed('long', { speed: 'slow' })];
  const { threads, enqueue } = schedulerWith(tools);
  enqueue(times(20, 'quick'));
  enqueue(times(20, 'long'));
  expect(namesOf(threads)).toEqual(['quick', 'quick', 'long', 'long', 'long', 'long']);
  expect(sizesOf(threads)).toEqual([16, 4, 5, 5, 5, 5]);
});

test('a tool with any number of calls leaves a thread to others', () => {
  const { threads, enqueue } = schedulerWith([toolNamed('many'), toolNamed('few')]);
  enqueue(times(1_000, 'many'));
  expect(namesOf(threads)).toEqual(['many', 'many']);
  enqueue(['few']);
  expect(namesOf(threads)).toEqual(['many', 'many', 'few']);
});

test('tools take turns when they find all threads taken, though others have a constant supply of calls', async () => {
  const { threads, outcomes, enqueue } = schedulerWith(['a', 'b', 'c', 'd'].map((name) => toolNamed(name)));
  enqueue([...times(100, 'a'), ...times(100, 'b')]);
  expect(namesOf(threads)).toEqual(['a', 'b', 'a']);
  enqueue([...times(100, 'c'), ...times(100, 'd')]);
  // The two oldest sessions take no more calls.
  for (let index = 0; threads.length < 8; index += 1) {
    const thread = threads[index] as FakeThread;
    const before = outcomes.length;
    for (const call of thread.calls.slice(0, 16)) thread.succeed(call);
    expect(outcomes.length).toBe(before + 16);
    await until(() => threads.length > 3 + index);
  }
  expect(namesOf(threads).slice(3, 5)).toEqual(['c', 'd']);
  expect(new Set(namesOf(threads).slice(4)), 'every tool has its turn afterwards').toEqual(
    new Set(['a', 'b', 'c', 'd']),
  );
});

test('a session takes more calls while its tool has any and no other tool waits for a thread', () => {
  const { threads, enqueue } = schedulerWith([toolNamed('many')]);
  enqueue(times(100, 'many'));
  const [thread] = threads as [FakeThread];
  for (const call of thread.calls.slice(0, 8)) thread.succeed(call);
  expect(sizesOf(threads)).toEqual([24, 16]);
});

test('a tool whose last call has just ended keeps its place before others', () => {
  const { threads, enqueue } = schedulerWith(['a', 'b', 'c', 'd'].map((name) => toolNamed(name)));
  enqueue(['a']);
  threads[0]?.succeed(1);
  enqueue(['a', 'b', 'c', 'd']);
  expect(namesOf(threads).slice(1)).toEqual(['a', 'b']);
});

test('other tools take turns with any number of calls that are repeated alone', async () => {
  const tools = ['killer', 'one', 'two'].map((name) => toolNamed(name));
  const { threads, enqueue } = schedulerWith(tools);
  enqueue(times(20, 'killer'), true);
  enqueue(['one', 'two']);
  expect(namesOf(threads)).toEqual(['killer', 'killer', 'one']);
  expect(sizesOf(threads)).toEqual([1, 1, 1]);
  threads[0]?.succeed(1);
  await until(() => threads.length === 4);
  expect(namesOf(threads)[3]).toBe('two');
});

test('`once` calls start only when their announcement has left the process', async () => {
  const left = Promise.withResolvers<void>();
  const announced: number[] = [];
  const { threads, enqueue } = schedulerWith(
    [toolNamed('pay', { side_effects: 'once' }), toolNamed('look')],
    undefined,
    (ids) => {
      announced.push(...ids);
      return left.promise;
    },
  );
  enqueue(['pay', 'look']);
  expect(announced).toEqual([1, 2]);
  expect(sizesOf(threads)).toEqual([0, 1]);
  left.resolve();
  await until(() => threads[0]?.calls.length === 1);
});

test('a `once` call cancelled before its announcement has left is not begun, and its neighbours are', async () => {
  const left = Promise.withResolvers<void>();
  const pay = toolNamed('pay', { side_effects: 'once' });
  const { scheduler, threads, outcomes, enqueue } = schedulerWith([pay], undefined, () => left.promise);
  enqueue(['pay', 'pay']);
  scheduler.cancel(1);
  left.resolve();
  await until(() => outcomes.length === 1);
  expect(outcomes).toMatchObject([
    {
      id: 1,
      status: 'crashed',
      started: false,
      result: 'AbortError: the caller gave up before the call started',
    },
  ]);
  expect(threads[0]?.calls).toEqual([2]);
});

test('calls that died with a neighbour run once more, each alone; `once` calls end as crashed and started', async () => {
  const tools = [toolNamed('look'), toolNamed('pay', { side_effects: 'once' })];
  const { threads, outcomes, enqueue } = schedulerWith(tools);
  enqueue([...times(3, 'look'), ...times(3, 'pay')]);
  await until(() => threads[1]?.calls.length === 3);
  for (const thread of threads.slice(0, 2)) {
    enterAll(thread);
    thread.say({ kind: 'blame', call: thread.calls[0] as number });
    thread.die(new Error('card 4111'));
  }
  await until(() => outcomes.length === 4 && threads.length === 4);
  expect(outcomes.map(({ id, status, started, error }) => [id, status, started, error])).toEqual([
    [1, 'crashed', true, 'look ended its thread: uncaught Error: card 4111'],
    [4, 'crashed', true, 'pay ended its thread: uncaught Error: card 4111'],
    [5, 'crashed', true, 'pay was interrupted because its thread ended (uncaught error)'],
    [6, 'crashed', true, 'pay was interrupted because its thread ended (uncaught error)'],
  ]);
  expect(threads.slice(2).map(({ calls }) => calls)).toEqual([[2], [3]]);
  for (const thread of threads.slice(2)) {
    enterAll(thread);
    thread.die();
  }
  await until(() => outcomes.length === 6);
  expect(
    outcomes.slice(4).map(({ status }) => status),
    'not a third time',
  ).toEqual(['crashed', 'crashed']);
});

test('after a thread ended under `once` calls, calls of their tool get a thread each', async () => {
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('pay', { side_effects: 'once' })]);
  enqueue(times(2, 'pay'));
  await until(() => threads[0]?.calls.length === 2);
  enterAll(threads[0] as FakeThread);
  threads[0]?.die();
  await until(() => outcomes.length === 2);
  enqueue(times(2, 'pay'));
  await until(() => threads.length === 3 && threads[2]?.calls.length === 1);
  expect(sizesOf(threads)).toEqual([2, 1, 1]);
});

test('a call whose neighbours end their thread in sequence runs after the last of them', async () => {
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('any', { side_effects: 'once' })]);
  const bad = new Set(Array.from({ length: 40 }, (_, index) => index + 1));
  enqueue(times(43, 'any'));
  for (let index = 0; outcomes.length < 43; index += 1) {
    await until(() => outcomes.length === 43 || (threads[index]?.calls.length ?? 0) > 0);
    const thread = threads[index];
    for (const call of thread?.calls ?? []) {
      thread?.enter(call);
      if (!bad.has(call)) thread?.succeed(call);
      else thread?.die();
      if (bad.has(call)) break;
    }
  }
  const succeeded = outcomes.filter(({ status }) => status === 'succeeded');
  expect(succeeded.map(({ id }) => id)).toEqual([41, 42, 43]);
});

test.for([
  ['has not entered it yet', false],
  ['ends by code of an ended call', true],
] as const)('a call has its repeat alone again when its thread %s', async ([, isStruck]) => {
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(['any'], true);
  if (isStruck) {
    enterAll(threads[0] as FakeThread);
    threads[0]?.say({ kind: 'blame', call: 0 });
  }
  threads[0]?.die();
  await until(() => threads.length === 2);
  threads[1]?.succeed(1);
  expect(outcomes).toMatchObject([{ id: 1, status: 'succeeded' }]);
});

test('a call cancelled before its repeat counts as started', async () => {
  const { scheduler, threads, outcomes, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(times(6, 'any'));
  enterAll(threads[0] as FakeThread);
  threads[0]?.die();
  await until(() => threads.length === 3);
  for (const id of [1, 2, 3, 4, 5, 6]) scheduler.cancel(id);
  expect(
    outcomes.map(({ id }) => id),
    'two of them have a thread',
  ).toEqual([3, 4, 5, 6]);
  for (const thread of threads.slice(1)) thread.die();
  await until(() => outcomes.length === 6);
  for (const outcome of outcomes)
    expect(outcome).toMatchObject({
      status: 'crashed',
      started: true,
      result: 'AbortError: the caller gave up',
    });
});

test('calls that are late in a busy thread run again alone when the others have ended, except a call cancelled meanwhile', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  let busyMs = 0;
  const { scheduler, threads, outcomes, enqueue } = schedulerWith(
    [toolNamed('any', { timeout_ms: 1_000 })],
    (thread, message) => {
      if (message.kind === 'stop' && message.name === 'TimeoutError') stopAtOnce(thread, message);
    },
    undefined,
    () => busyMs,
  );
  enqueue(times(4, 'any'));
  const [thread] = threads as [FakeThread];
  for (const call of [1, 2, 3, 0]) thread.enter(call);
  await vi.advanceTimersByTimeAsync(500);
  for (const call of [4, 0]) thread.enter(call);
  busyMs = 300;
  await vi.advanceTimersByTimeAsync(550);
  scheduler.cancel(2);
  expect(outcomes).toEqual([]);
  expect(threads).toHaveLength(1);
  thread.succeed(4);
  await vi.advanceTimersByTimeAsync(0);
  expect(outcomes).toMatchObject([
    { id: 4, status: 'succeeded' },
    { id: 2, status: 'crashed' },
  ]);
  expect(threads.slice(1).map(({ calls }) => calls)).toEqual([[1], [3]]);
});

test.for([
  ['in an idle thread', 'none', 0, false],
  ['that must not be repeated', 'once', 900, false],
  ['that runs alone', 'none', 900, true],
] as const)('a call %s times out at its deadline', async ([, side_effects, workMs, isAlone]) => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  let busyMs = 0;
  const { threads, outcomes, enqueue } = schedulerWith(
    [toolNamed('any', { timeout_ms: 1_000, side_effects })],
    stopAtOnce,
    undefined,
    () => busyMs,
  );
  enqueue(['any'], isAlone);
  await vi.advanceTimersByTimeAsync(0);
  enterAll(threads[0] as FakeThread);
  await vi.advanceTimersByTimeAsync(500);
  busyMs = workMs;
  await vi.advanceTimersByTimeAsync(550);
  const error = 'TimeoutError: any ran longer than 1000 ms';
  expect(outcomes).toMatchObject([{ id: 1, status: 'timed_out', started: true, error }]);
});

test('a thread that does not come free is ended at the deadline of its call', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('any', { timeout_ms: 1_000 })]);
  enqueue(times(2, 'any'));
  threads[0]?.enter(1);
  await vi.advanceTimersByTimeAsync(990);
  expect(outcomes).toEqual([]);
  await vi.advanceTimersByTimeAsync(60);
  const error = 'TimeoutError: any ran longer than 1000 ms and was stopped with its thread';
  expect(outcomes).toMatchObject([{ id: 1, status: 'timed_out', started: true, error }]);
  expect(threads[1]?.calls, 'the call that was not entered').toEqual([2]);
});

test('a yielded call that its thread does not stop is ended within 250 ms of its deadline', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('any', { timeout_ms: 1_000 })]);
  enqueue(['any']);
  enterAll(threads[0] as FakeThread);
  await vi.advanceTimersByTimeAsync(1_200);
  expect(outcomes).toEqual([]);
  await vi.advanceTimersByTimeAsync(50);
  expect(outcomes).toMatchObject([{ id: 1, status: 'timed_out' }]);
});

test('calls that wait in a stuck thread run in another', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  const { threads, log, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(times(2, 'any'));
  threads[0]?.succeed(1);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(threads).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(threads[1]?.calls).toEqual([2]);
  expect(log).toEqual(['a thread ended: code left running by an ended call blocked it (any)']);
});

test('the log names no tool of a thread that is ended by code of an ended call', async () => {
  const { threads, log, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(['any']);
  enterAll(threads[0] as FakeThread);
  threads[0]?.say({ kind: 'blame', call: 0 });
  threads[0]?.die(new Error('words'));
  await until(() => log.length > 0);
  expect(log).toEqual(['a thread ended: uncaught error (code left running by an ended call)']);
});

test('a module that a thread could not import is tried in one thread at a time until it is imported', async () => {
  const { threads, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(times(40, 'any'));
  expect(threads).toHaveLength(2);
  for (const thread of threads.slice(0, 2))
    thread.say({ kind: 'not_imported', reason: 'too many open files' });
  await until(() => threads.length === 3);
  expect(sizesOf(threads)).toEqual([16, 16, 16]);
  enterAll(threads[2] as FakeThread);
  enqueue(['any']);
  expect(threads).toHaveLength(4);
});

test('a call cancelled during the import of its module does not end the time of the import', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  const { scheduler, threads, outcomes, log, enqueue } = schedulerWith([toolNamed('any')], stopAtOnce);
  enqueue(['any', 'any']);
  scheduler.cancel(1);
  expect(outcomes).toMatchObject([{ id: 1, status: 'crashed', started: false }]);
  await vi.advanceTimersByTimeAsync(9_000);
  expect(log).toEqual([]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(log[0]).toMatch(
    /^a thread could not import the module of any and is ended: importing a module took/,
  );
  expect(threads[1]?.calls).toEqual([2]);
});

test('a call that comes in the pause after a failed import waits for it', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  const { scheduler, threads, outcomes, enqueue } = schedulerWith([toolNamed('any')]);
  enqueue(['any']);
  threads[0]?.say({ kind: 'not_imported', reason: 'too many open files' });
  scheduler.cancel(1);
  await vi.advanceTimersByTimeAsync(100);
  expect(outcomes).toMatchObject([{ id: 1, status: 'crashed', started: false }]);
  enqueue(['any']);
  expect(threads).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(300);
  expect(threads[1]?.calls).toEqual([2]);
});

test('a call of a module with `concurrency` is refused before it starts, and needs no thread', () => {
  const { threads, outcomes, enqueue } = schedulerWith([toolNamed('waits', { concurrency: 500 })]);
  enqueue(['waits']);
  const error = 'waits exports concurrency, so another process runs it; the threads of this host do not.';
  expect(outcomes).toMatchObject([{ id: 1, status: 'failed', started: false, result: error, error }]);
  expect(threads).toEqual([]);
});
