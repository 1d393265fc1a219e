import type { StackProcess } from './processes.ts';
import type { Stack } from './stack.ts';

/** Milliseconds before the first new start; doubled each time that the process ends again soon, up to the maximum. */
const PAUSE_MS = 250;
const PAUSE_MS_MAX = 30_000;
/** Milliseconds that a process must have been up for its end to count as the first one again. */
const STEADY_MS = 60_000;
/** Milliseconds without a start that succeeds after which there is no hope: a database takes some of them to recover, or to fail over. */
const HOPELESS_MS = 600_000;
/** Milliseconds between two liveness checks, and for an answer. */
const CHECK_INTERVAL_MS = 5_000;
const ANSWER_MS = 5_000;
/** Checks in a row without an answer after which a process is replaced: a minute, where it is frozen. */
const UNANSWERED_MAX = 6;

export interface Watcher {
  /** Takes a line for the terminal. */
  say(line: string): void;
  /** Called when a process cannot be brought back. */
  giveUp(reason: Error): void;
}

/** The time that the watch goes by. */
export interface WatchTime {
  /** Milliseconds since whenever; never goes back. */
  now(): number;
  pause(ms: number): Promise<void>;
}

const MACHINE_TIME: WatchTime = {
  now: () => performance.now(),
  pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

/** Resolves once `process` has left {@link UNANSWERED_MAX} liveness checks in a row without an answer; never, once it has ended. */
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
 * Starts every process of the stack again that ends, and kills one that does not answer its liveness check first, until the function that it returns is called, or until one could not be
 * started for {@link HOPELESS_MS}. Without its database nothing can go on: its end is the end of them all.
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
    watcher.giveUp(new Error(`The database ended (${how}). What was accepted is kept: start again.`));
  });
  return () => {
    stopped = true;
  };
}
