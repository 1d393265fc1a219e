import type { StackProcess } from './processes.ts';
import type { Stack } from './stack.ts';

/** Milliseconds before the first restart; doubled after each early end, up to the maximum. */
const PAUSE_MS = 250;
const PAUSE_MS_MAX = 30_000;
/** Milliseconds of uptime after which an end counts as the first again. */
const STEADY_MS = 60_000;
/**
 * Milliseconds of failing starts before giving up: a database takes some minutes to recover or to fail over.
 */
const HOPELESS_MS = 600_000;
/** Milliseconds between two liveness checks, and for an answer. */
const CHECK_INTERVAL_MS = 5_000;
const ANSWER_MS = 5_000;
/** Unanswered checks in a row before a process is replaced: a minute for a paused process. */
const UNANSWERED_MAX = 6;
/** Wait for the last lines of a process that has ended. Unit: ms. */
const LAST_LINES_MS = 1_000;
/** A worker's last line but one before it ends because of a drain. */
const DRAINED = '"msg":"worker is drained"';

export interface Watcher {
  /** Prints a line on the terminal. */
  say(line: string): void;
  /** Called when a process cannot be restarted. */
  giveUp(reason: Error): void;
}

/** The clock of the watch. */
export interface WatchTime {
  /** Milliseconds of a monotonic clock. */
  now(): number;
  pause(ms: number): Promise<void>;
}

const MACHINE_TIME: WatchTime = {
  now: () => performance.now(),
  pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/**
 * Resolves after {@link UNANSWERED_MAX} unanswered liveness checks in a row. Never resolves once the process
 * has ended.
 */
async function untilSilent(stack: Stack, process: StackProcess, time: WatchTime): Promise<void> {
  for (let unanswered = 0; unanswered < UNANSWERED_MAX;) {
    if (!process.alive()) return new Promise(() => undefined);
    await time.pause(CHECK_INTERVAL_MS);
    const late = new AbortController();
    const isAlive = await Promise.race([
      stack.answers(process.name, late.signal),
      time.pause(ANSWER_MS).then(() => false),
    ]);
    late.abort();
    unanswered = isAlive ? 0 : unanswered + 1;
  }
}

/**
 * Restarts every process of the stack that ends, except a worker that was drained and ended with code 0, and
 * kills a process that leaves its liveness checks unanswered. Stops when the returned function is called, after {@link HOPELESS_MS} without a successful
 * start, or when the embedded database ends.
 */
export function keepRunning(stack: Stack, watcher: Watcher, time = MACHINE_TIME): () => void {
  let stopped = false;
  const isStopped = (): boolean => stopped;
  const keep = async (first: StackProcess): Promise<void> => {
    const { name } = first;
    let running = first;
    let endsInARow = 0;
    while (!isStopped()) {
      const since = time.now();
      const told = { isDrained: false };
      running.onLine((line) => (told.isDrained ||= line.includes(DRAINED)));
      const isSilent = await Promise.race([
        running.ended.then(() => false),
        untilSilent(stack, running, time).then(() => true),
      ]);
      if (isStopped()) return;
      if (isSilent) {
        watcher.say(`${name} does not answer its liveness check; killing it`);
        await running.kill();
      }
      if (isStopped()) return;
      // A process of a tool may hold the output open, so the wait is bounded.
      const hasExited = !isSilent && (await running.ended) === 0;
      if (hasExited) await Promise.race([running.closed, time.pause(LAST_LINES_MS)]);
      if (hasExited && told.isDrained) {
        watcher.say(`${name} was drained and has ended; it is not started again until the next start`);
        return;
      }
      const endedAt = time.now();
      endsInARow = endedAt - since < STEADY_MS ? endsInARow + 1 : 1;
      watcher.say(`${name} ended (${running.endedBy()}); starting it again`);
      for (let starts = 1; ; starts++) {
        await time.pause(Math.min(PAUSE_MS * 2 ** (endsInARow + starts - 2), PAUSE_MS_MAX));
        if (isStopped()) return;
        try {
          running = await stack.startAgain(name);
          if (starts > 1 && !isStopped()) watcher.say(`${name} is up again`);
          break;
        } catch (error) {
          if (isStopped()) return;
          const { message } = error as Error;
          if (time.now() - endedAt >= HOPELESS_MS) {
            watcher.giveUp(
              new Error(`${name} could not be started again for ${HOPELESS_MS / 60_000} minutes. ${message}`),
            );
            return;
          }
          watcher.say(`${message}\n${name} is tried again`);
        }
      }
    }
  };
  for (const process of stack.processes) void keep(process);
  void stack.databaseEnded?.then((how) => {
    if (isStopped()) return;
    watcher.giveUp(new Error(`The database ended (${how}). Accepted work is kept: start again.`));
  });
  return () => {
    stopped = true;
  };
}
