import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { LiveCall } from '../src/live-call.ts';
import { createProgress, readCall, readSlot } from '../src/progress.ts';
import type { OutcomeFrame } from '../src/protocol.ts';
import { startTaskRun } from '../src/task-run.ts';
import type { ThreadReport } from '../src/task.ts';
import { testDirectory, TOOLS_DIR, until } from './support/tool-hosts.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval'] }));
afterEach(() => void vi.useRealTimers());

test('a cancelled call that goes on past its deadline frees its slot once', async () => {
  const file = `${await testDirectory()}/lines`;
  const progress = createProgress(4, 2);
  const tools = ['deaf', 'slow'].map((name) => ({
    name,
    file: `${TOOLS_DIR}/${name}.ts`,
    once: false,
    timeout_ms: name === 'deaf' ? 200 : 60_000,
    result_char_limit: 1_000,
  }));
  const calls = [1, 2, 3, 4].map((id) => ({ id, arguments: { file, ms: 60_000 } }));
  const run = startTaskRun(
    {
      task: 1,
      cells: progress.cells,
      slots: progress.slots,
      tools,
      calls_json: JSON.stringify(calls),
      tool_of_call: [0, 1, 1, 1],
    },
    { threadId: 1, callInProgress: new AsyncLocalStorage<LiveCall>(), post: () => {} },
  );
  const entered = (): number[] =>
    calls.flatMap((_, call) => (readCall(progress, call) === 'entered' ? [call] : []));
  // Does not end: the thread would be stopped for the call that goes on.
  void run.finish();
  await until(() => entered().length === 2);
  run.cancel(new Set([1]));
  await until(() => entered().length === 2);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(entered()).toEqual([1, 2]);
  expect([readSlot(progress, 0), readSlot(progress, 1)].sort()).toEqual([1, 2]);
  run.cancel(new Set([2, 3, 4]));
});

test('a call that computes after it has waited counts as busy for that long', async () => {
  vi.useRealTimers();
  const progress = createProgress(4, 4);
  const busyMs: number[] = [];
  const take = (report: ThreadReport): void => void busyMs.push(...report.busy_ms);
  const tool = { name: 'burns_later', once: false, timeout_ms: 60_000, result_char_limit: 1_000 };
  const run = startTaskRun(
    {
      task: 1,
      cells: progress.cells,
      slots: progress.slots,
      tools: [{ ...tool, file: `${TOOLS_DIR}/burns_later.ts` }],
      calls_json: JSON.stringify([1, 2, 3, 4].map((id) => ({ id, arguments: { ms: 40 } }))),
      tool_of_call: [0, 0, 0, 0],
    },
    { threadId: 1, callInProgress: new AsyncLocalStorage<LiveCall>(), post: take },
  );
  take(await run.finish());
  expect(busyMs).toHaveLength(4);
  for (const ms of busyMs) expect(ms).toBeGreaterThan(35);
});

test.for([
  ['is given back without an outcome where it may be made again', false],
  ['times out where it may not', true],
] as const)('a call whose thread computes past its deadline %s', async ([, once]) => {
  vi.useRealTimers();
  const progress = createProgress(8, 8);
  const outcomes: OutcomeFrame[] = [];
  const givenBack: number[] = [];
  const take = ({ outcomes_json, given_back }: ThreadReport): void => {
    outcomes.push(...(JSON.parse(`[${outcomes_json}]`) as OutcomeFrame[]));
    givenBack.push(...given_back);
  };
  const tool = { name: 'computes', once, timeout_ms: 300, result_char_limit: 1_000 };
  const calls = Array.from({ length: 8 }, (_, id) => ({ id, arguments: { rounds: 16, ms: 5 } }));
  const run = startTaskRun(
    {
      task: 1,
      cells: progress.cells,
      slots: progress.slots,
      tools: [{ ...tool, file: `${TOOLS_DIR}/computes.ts` }],
      calls_json: JSON.stringify(calls),
      tool_of_call: calls.map(() => 0),
    },
    { threadId: 1, callInProgress: new AsyncLocalStorage<LiveCall>(), post: take },
  );
  take(await run.finish());
  const timedOut = outcomes.filter(({ status }) => status === 'timed_out').map(({ id }) => id);
  expect(outcomes.length + givenBack.length).toBe(8);
  expect(once ? timedOut : givenBack, 'eight calls of 80 ms take twice the time').not.toEqual([]);
  expect(once ? givenBack : timedOut).toEqual([]);
  for (const call of givenBack) expect(readCall(progress, call)).toBe('entered');
  for (const slot of calls.keys()) expect(readSlot(progress, slot)).toBeUndefined();
});

test('a call that has its thread to itself times out, however much it computes', async () => {
  vi.useRealTimers();
  const progress = createProgress(1, 1);
  const reports: ThreadReport[] = [];
  const tool = { name: 'computes', once: false, timeout_ms: 100, result_char_limit: 1_000 };
  const run = startTaskRun(
    {
      task: 1,
      cells: progress.cells,
      slots: progress.slots,
      tools: [{ ...tool, file: `${TOOLS_DIR}/computes.ts` }],
      calls_json: JSON.stringify([{ id: 1, arguments: { rounds: 100, ms: 5 } }]),
      tool_of_call: [0],
    },
    {
      threadId: 1,
      callInProgress: new AsyncLocalStorage<LiveCall>(),
      post: (report) => reports.push(report),
    },
  );
  reports.push(await run.finish());
  const outcomes = reports.map(({ outcomes_json }) => outcomes_json).join('');
  expect(JSON.parse(outcomes)).toMatchObject({ id: 1, status: 'timed_out' });
  expect(reports.flatMap(({ given_back }) => given_back)).toEqual([]);
});

test('an answer received before its deadline counts, however late the thread reads it', async () => {
  vi.useRealTimers();
  const progress = createProgress(2, 2);
  const outcomes: OutcomeFrame[] = [];
  const take = ({ outcomes_json }: ThreadReport): void =>
    void outcomes.push(...(JSON.parse(`[${outcomes_json}]`) as OutcomeFrame[]));
  const tools = ['looks', 'burns'].map((name) => ({
    name,
    file: `${TOOLS_DIR}/${name}.ts`,
    once: false,
    timeout_ms: 200,
    result_char_limit: 1_000,
  }));
  const calls = [1, 2].map((id) => ({ id, arguments: { ms: 400 } }));
  const run = startTaskRun(
    {
      task: 1,
      cells: progress.cells,
      slots: progress.slots,
      tools,
      calls_json: JSON.stringify(calls),
      tool_of_call: [0, 1],
    },
    { threadId: 1, callInProgress: new AsyncLocalStorage<LiveCall>(), post: take },
  );
  take(await run.finish());
  expect(outcomes.find(({ id }) => id === 1)).toMatchObject({ status: 'succeeded', result: 'there' });
});
