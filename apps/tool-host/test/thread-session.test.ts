import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, expect, test, vi } from 'vitest';
import { loadRun } from '../src/module.ts';
import type { OutcomeFrame } from '../src/protocol.ts';
import type { FromThread } from '../src/thread-messages.ts';
import { startThreadSession, type LiveCall, type ThreadSession } from '../src/thread-session.ts';
import { toolNamed } from './support/fake-threads.ts';
import { linesOf, testDirectory, TOOLS_DIR, until } from './support/tool-hosts.ts';

afterEach(() => void vi.useRealTimers());

interface Watched {
  readonly session: ThreadSession;
  readonly messages: FromThread[];
  outcomes(): OutcomeFrame[];
  givenBack(): number[];
  /** Hands over calls numbered from 1 on. */
  post(args: readonly unknown[], more?: { readonly alone?: boolean; readonly timeout_ms?: number }): void;
}

/** Starts a session of a fixture tool in this thread. */
async function startWatched(name: string, once = false): Promise<Watched> {
  const messages: FromThread[] = [];
  const file = `${TOOLS_DIR}/${name}.ts`;
  const tool = toolNamed(name, { file, side_effects: once ? 'once' : 'none' });
  const session = startThreadSession(tool, new AsyncLocalStorage<LiveCall>(), (message) =>
    messages.push(message),
  );
  session.open(await loadRun(file));
  return {
    session,
    messages,
    outcomes: () =>
      messages.flatMap((message) =>
        message.kind === 'step' && message.outcome !== ''
          ? [JSON.parse(message.outcome) as OutcomeFrame]
          : [],
      ),
    givenBack: () => messages.flatMap((message) => (message.kind === 'given_back' ? [message.call] : [])),
    post(args, { alone = false, timeout_ms = 60_000 } = {}) {
      const calls = args.map((one, index) => ({
        id: index + 1,
        arguments: one,
        timeout_ms,
        idempotency_key: `key-${index + 1}`,
      }));
      session.receive({ kind: 'calls', json: JSON.stringify(calls), alone });
    },
  };
}

test('each entry is reported before it, with the outcome of the call before', async () => {
  const { post, messages } = await startWatched('echo');
  post([{ text: 'a' }, { text: 'b' }]);
  await until(() => messages.some((message) => message.kind === 'step' && message.ended === 2));
  const steps = messages.filter((message) => message.kind === 'step');
  expect(steps.map(({ running, ended }) => [running, ended])).toEqual(
    expect.arrayContaining([
      [1, 0],
      [2, 1],
      [0, 2],
    ]),
  );
});

test('a call cancelled before its thread reads it is not begun, and its neighbours are', async () => {
  const ledger = `${await testDirectory()}/ledger`;
  const { post, session, messages, outcomes } = await startWatched('pay_once', true);
  post([{ ledger }, { ledger }]);
  session.receive({ kind: 'cancel', id: 1 });
  await until(() => outcomes().length === 1);
  expect(messages).toContainEqual({ kind: 'step', running: 0, ended: 1, outcome: '' });
  expect(outcomes()).toMatchObject([{ id: 2, status: 'succeeded', started: true }]);
  expect(await linesOf(ledger)).toEqual(['key-2']);
});

test('a cancelled call ends once, though its function goes on past its deadline; the thread is reported', async () => {
  const file = `${await testDirectory()}/lines`;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval'] });
  const { post, session, messages, outcomes } = await startWatched('deaf');
  post([{ file }], { timeout_ms: 200 });
  await until(() => messages.some((message) => message.kind === 'step' && message.running === 1));
  session.receive({ kind: 'cancel', id: 1 });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(outcomes()).toMatchObject([{ id: 1, status: 'crashed', result: 'AbortError: the caller gave up' }]);
  expect(messages.filter(({ kind }) => kind === 'abandoned')).toHaveLength(1);
});

test.for([
  ['is given back without an outcome where it may be made again', false],
  ['times out where it may not', true],
] as const)('a call whose thread computes past its deadline %s', async ([, once]) => {
  const { post, outcomes, givenBack } = await startWatched('computes', once);
  post(
    Array.from({ length: 8 }, () => ({ rounds: 16, ms: 5 })),
    { timeout_ms: 300 },
  );
  await until(() => outcomes().length + givenBack().length === 8);
  const timedOut = outcomes().flatMap(({ id, status }) => (status === 'timed_out' ? [id] : []));
  expect(once ? timedOut : givenBack(), 'eight calls of 80 ms take twice the time').not.toEqual([]);
  expect(once ? givenBack() : timedOut).toEqual([]);
});

test('a call that runs alone times out, however much it computes', async () => {
  const { post, outcomes, givenBack } = await startWatched('computes');
  post([{ rounds: 100, ms: 5 }], { alone: true, timeout_ms: 100 });
  await until(() => outcomes().length === 1);
  expect(outcomes()).toMatchObject([{ id: 1, status: 'timed_out' }]);
  expect(givenBack()).toEqual([]);
});

test('an answer received before its deadline counts, however late the thread reads it', async () => {
  const { post, outcomes } = await startWatched('looks');
  post([{}], { timeout_ms: 200 });
  // The call is entered in the next turn; then the thread is busy until long after its deadline.
  await new Promise((resolve) => setImmediate(resolve));
  const busyUntilMs = performance.now() + 400;
  while (performance.now() < busyUntilMs);
  await until(() => outcomes().length === 1);
  expect(outcomes()).toMatchObject([{ status: 'succeeded', result: 'there' }]);
});

test('a session ends when the host asks for it; a thread with functions that go on is reported instead', async () => {
  const quick = await startWatched('echo');
  quick.session.receive({ kind: 'end' });
  await quick.session.ended;
  const file = `${await testDirectory()}/lines`;
  vi.useFakeTimers({ toFake: ['setInterval'] });
  const deaf = await startWatched('deaf');
  deaf.post([{ file }], { timeout_ms: 100 });
  await until(() => deaf.outcomes().length === 1);
  deaf.session.receive({ kind: 'end' });
  await until(() => deaf.messages.some(({ kind }) => kind === 'occupied'));
});
