import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { keepRunning, type WatchTime } from '../../scripts/stack/keep-running.ts';
import { startProcess, type StackProcess } from '../../scripts/stack/processes.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

/** Milliseconds until a start fails. */
const START_MS = 900;
const MINUTE = 60_000;

const ended = (how: Promise<null>): StackProcess => {
  const known = {
    ...{ name: 'worker-1', ended: how, closed: how, endedBy: () => 'SIGKILL', alive: () => false },
    onLine: () => undefined,
  };
  return known as Partial<StackProcess> as StackProcess;
};

/**
 * Watches a worker that is killed at once, in virtual time, until it is given up or up again. It can start from `recoveredAt`
 * on.
 */
async function watch(recoveredAt: number) {
  let at = 0;
  const said: string[] = [];
  const pauses: number[] = [];
  const settled = Promise.withResolvers<string>();
  const stack: Pick<Stack, 'processes' | 'startAgain' | 'databaseEnded'> = {
    processes: [ended(Promise.resolve(null))],
    databaseEnded: undefined,
    startAgain: async () => {
      at += START_MS;
      if (at < recoveredAt) throw new Error('the database system is in recovery mode');
      settled.resolve('up');
      return ended(new Promise(() => undefined));
    },
  };
  const stop = keepRunning(
    stack as Stack,
    { say: (line) => void said.push(line), giveUp: ({ message }) => settled.resolve(message) },
    {
      now: () => at,
      pause: async (ms) => {
        pauses.push(ms);
        at += ms;
      },
    },
  );
  const outcome = await settled.promise;
  // The messages follow within this turn.
  await new Promise((resolve) => setImmediate(resolve));
  stop();
  return { outcome, tookMs: at, said, pauses };
}

test('a worker restarts after a database failover of minutes', async () => {
  const { outcome, said, pauses } = await watch(8 * MINUTE);
  expect(outcome).toBe('up');
  expect(pauses.slice(0, 9)).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  expect(Math.max(...pauses)).toBe(30_000);
  expect([said[0], said[1], said.at(-1)]).toEqual([
    'worker-1 ended (SIGKILL); starting it again',
    'the database system is in recovery mode\nworker-1 is tried again',
    'worker-1 is up again',
  ]);
});

test('after ten minutes of failed starts the watch gives up with the last reason', async () => {
  const { outcome, tookMs, said } = await watch(Infinity);
  expect(outcome).toBe(
    'worker-1 could not be started again for 10 minutes. the database system is in recovery mode',
  );
  expect(tookMs).toBeGreaterThanOrEqual(10 * MINUTE);
  expect(tookMs).toBeLessThan(11 * MINUTE);
  expect(said).not.toContain('worker-1 is up again');
});

test('a restart at the first try is reported in one line', async () => {
  const { said } = await watch(0);
  expect(said).toEqual(['worker-1 ended (SIGKILL); starting it again']);
});

test.each([
  [0, true, 'worker-1 was drained and has ended; it is not started again until the next start'],
  [0, false, 'worker-1 ended (code 0); starting it again'],
  [1, true, 'worker-1 ended (code 1); starting it again'],
])('after an end with code %i, drained: %o, the terminal says: %s', async (code, isDrained, line) => {
  const said = Promise.withResolvers<string>();
  const known: Partial<StackProcess> = {
    ...{ name: 'worker-1', closed: Promise.resolve(), ended: Promise.resolve(code), alive: () => false },
    endedBy: () => `code ${code}`,
    onLine: (listener) => listener(`{"level":30,"msg":"worker is ${isDrained ? 'drained' : 'at work'}"}`),
  };
  const stack: Pick<Stack, 'processes' | 'databaseEnded'> = {
    processes: [known as StackProcess],
    databaseEnded: undefined,
  };
  const watcher = { say: said.resolve, giveUp: () => undefined };
  onTestFinished(
    keepRunning(stack as Stack, watcher, { now: () => 0, pause: () => new Promise(() => undefined) }),
  );
  expect(await said.promise).toBe(line);
});

/** A clock that the test moves: each pause ends in its turn. */
function handClock(): WatchTime & { pass(): Promise<number> } {
  let at = 0;
  const open: { readonly ms: number; readonly end: () => void }[] = [];
  let begun = Promise.withResolvers<void>();
  return {
    now: () => at,
    pause: (ms) =>
      new Promise((end) => {
        open.push({ ms, end });
        begun.resolve();
      }),
    /** Ends the oldest pause as soon as there is one. Returns its length. */
    async pass() {
      while (open.length === 0) {
        begun = Promise.withResolvers<void>();
        await begun.promise;
      }
      const [{ ms, end } = { ms: 0, end: () => undefined }] = open.splice(0, 1);
      at += ms;
      end();
      return ms;
    },
  };
}

/** Starts a program that answers over HTTP and prints its address. */
async function startAnswerer(dir: string): Promise<{ process: StackProcess; url: string }> {
  const file = join(dir, 'answerer.mjs');
  await writeFile(
    file,
    `import { createServer } from 'node:http';
     const server = createServer((request, response) => response.end()).listen(0, '127.0.0.1', () =>
       console.log('http://127.0.0.1:' + server.address().port));
     process.stdin.on('end', () => process.exit()).resume();`,
  );
  const entry = relative(join(import.meta.dirname, '../..'), file);
  const process = startProcess('worker-1', entry, {}, join(dir, 'worker-1.log'));
  onTestFinished(() => process.kill());
  return { process, url: await process.firstLine((line) => line) };
}

test('a frozen process is killed after a minute without an answer and restarted; an answering process is left alone', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-keep-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const first = await startAnswerer(dir);
  let { url } = first;
  const answered: boolean[] = [];
  const again = Promise.withResolvers<StackProcess>();
  const checked = { next: Promise.withResolvers<void>() };
  const stack: Pick<Stack, 'processes' | 'startAgain' | 'databaseEnded' | 'answers'> = {
    processes: [first.process],
    databaseEnded: undefined,
    answers: async (_name, signal) => {
      const isAlive = await fetch(url, { signal }).then(
        () => true,
        () => false,
      );
      answered.push(isAlive);
      checked.next.resolve();
      return isAlive;
    },
    startAgain: async () => {
      const second = await startAnswerer(dir);
      url = second.url;
      again.resolve(second.process);
      return second.process;
    },
  };
  const clock = handClock();
  const said: string[] = [];
  const watcher = { say: (line: string) => void said.push(line), giveUp: () => undefined };
  onTestFinished(keepRunning(stack as Stack, watcher, clock));

  // Ten answered checks: for each the interval passes, then its deadline.
  for (let check = 0; check < 10; check++) {
    checked.next = Promise.withResolvers<void>();
    expect(await clock.pass()).toBe(5_000);
    await checked.next.promise;
    expect(await clock.pass()).toBe(5_000);
  }
  expect([answered, said, first.process.alive()]).toEqual([Array(10).fill(true), [], true]);

  first.process.freeze();
  const frozenAt = clock.now();
  for (let check = 0; check < 6; check++) {
    expect(said).toEqual([]);
    await clock.pass();
    await clock.pass();
  }
  await first.process.ended;
  expect(first.process.endedBy()).toBe('SIGKILL');
  expect(clock.now() - frozenAt).toBe(60_000);
  expect(await clock.pass()).toBe(250);
  expect((await again.promise).alive()).toBe(true);
  expect(said).toEqual([
    'worker-1 does not answer its liveness check; killing it',
    'worker-1 ended (SIGKILL); starting it again',
  ]);
});
