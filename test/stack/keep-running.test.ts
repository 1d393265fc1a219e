import { expect, test } from 'vitest';
import { keepRunning } from '../../scripts/stack/keep-running.ts';
import type { StackProcess } from '../../scripts/stack/processes.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

/** Milliseconds that a start takes until it fails. */
const START_MS = 900;
const MINUTE = 60_000;

const process = (ended: Promise<null>): StackProcess =>
  ({ name: 'worker-1', ended, endedBy: () => 'SIGKILL' }) as Partial<StackProcess> as StackProcess;

/**
 * Watches a worker that is killed at once, in a time of its own, until there is no hope or it is up again; it can be started
 * from `recoveredAt` on.
 */
async function watch(recoveredAt: number) {
  let at = 0;
  const said: string[] = [];
  const pauses: number[] = [];
  const settled = Promise.withResolvers<string>();
  const stack: Pick<Stack, 'processes' | 'startAgain' | 'databaseEnded'> = {
    processes: [process(Promise.resolve(null))],
    databaseEnded: undefined,
    startAgain: async () => {
      at += START_MS;
      if (at < recoveredAt) throw new Error('the database system is in recovery mode');
      settled.resolve('up');
      return process(new Promise(() => undefined));
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
  // What is said of it follows within this turn.
  await new Promise((resolve) => setImmediate(resolve));
  stop();
  return { outcome, tookMs: at, said, pauses };
}

test('a worker that cannot start while its database fails over for minutes comes up when the database is back', async () => {
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

test('after ten minutes without a start that succeeds there is no hope, and the last reason is told', async () => {
  const { outcome, tookMs, said } = await watch(Infinity);
  expect(outcome).toBe(
    'worker-1 could not be started again for 10 minutes. the database system is in recovery mode',
  );
  expect(tookMs).toBeGreaterThanOrEqual(10 * MINUTE);
  expect(tookMs).toBeLessThan(11 * MINUTE);
  expect(said).not.toContain('worker-1 is up again');
});

test('a worker that comes up at the first try is told of in one line', async () => {
  const { said } = await watch(0);
  expect(said).toEqual(['worker-1 ended (SIGKILL); starting it again']);
});
