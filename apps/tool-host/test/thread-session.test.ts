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
  /** Calls with an outcome, by id. */
  outcomes(): (OutcomeFrame & { readonly id: number })[];
  /** Calls that were stopped without one. */
  stopped(): number[];
  stop(id: number): void;
  /** Hands over calls numbered from 1 on. */
  post(args: readonly unknown[]): void;
}

/** Starts a session of a fixture tool in this thread. */
async function startWatched(name: string): Promise<Watched> {
  const messages: FromThread[] = [];
  const file = `${TOOLS_DIR}/${name}.ts`;
  const tool = toolNamed(name, { file });
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
          ? [{ id: message.ended, ...(JSON.parse(message.outcome) as OutcomeFrame) }]
          : [],
      ),
    stopped: () =>
      messages.flatMap((message) =>
        message.kind === 'step' && message.ended !== 0 && message.outcome === '' ? [message.ended] : [],
      ),
    stop: (id) => session.receive({ kind: 'stop', id, name: 'AbortError', reason: 'the caller gave up' }),
    post(args) {
      const calls = args.map((one, index) => ({
        id: index + 1,
        arguments: one,
        idempotency_key: `key-${index + 1}`,
      }));
      session.receive({ kind: 'calls', json: JSON.stringify(calls) });
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

test('a call stopped before its thread reads it is not begun, and its neighbours are', async () => {
  const ledger = `${await testDirectory()}/ledger`;
  const { post, stop, outcomes, stopped } = await startWatched('pay_once');
  post([{ ledger }, { ledger }]);
  stop(1);
  await until(() => outcomes().length === 1);
  expect(stopped()).toEqual([1]);
  expect(outcomes()).toMatchObject([{ id: 2, status: 'succeeded', started: true }]);
  expect(await linesOf(ledger)).toEqual(['key-2']);
});

test('a stopped call ends once, though its function goes on', async () => {
  const file = `${await testDirectory()}/lines`;
  const { post, stop, messages, outcomes, stopped } = await startWatched('deaf');
  vi.useFakeTimers({ toFake: ['setInterval'] });
  post([{ file }]);
  await until(() => messages.some((message) => message.kind === 'step' && message.running === 1));
  stop(1);
  stop(1);
  await until(() => stopped().length > 0);
  expect(stopped()).toEqual([1]);
  expect(outcomes()).toEqual([]);
});

test('an answer received before its call is stopped counts, however late the thread reads it', async () => {
  const { post, stop, outcomes, stopped } = await startWatched('looks');
  post([{}]);
  // The call is entered in the next turn; then the thread is busy until long after its answer is there.
  await new Promise((resolve) => setImmediate(resolve));
  const busyUntilMs = performance.now() + 400;
  while (performance.now() < busyUntilMs);
  stop(1);
  await until(() => outcomes().length + stopped().length === 1);
  expect(outcomes()).toMatchObject([{ status: 'succeeded', result: 'there' }]);
});

test('a session ends when the host asks for it; a thread with functions that go on is reported instead', async () => {
  const quick = await startWatched('echo');
  quick.session.receive({ kind: 'end' });
  await quick.session.ended;
  const file = `${await testDirectory()}/lines`;
  vi.useFakeTimers({ toFake: ['setInterval'] });
  const deaf = await startWatched('deaf');
  deaf.post([{ file }]);
  await until(() => deaf.messages.some((message) => message.kind === 'step' && message.running === 1));
  deaf.stop(1);
  await until(() => deaf.stopped().length === 1);
  deaf.session.receive({ kind: 'end' });
  await until(() => deaf.messages.some(({ kind }) => kind === 'occupied'));
});
