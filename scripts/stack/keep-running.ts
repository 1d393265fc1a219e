import type { StackProcess } from './processes.ts';
import type { Stack } from './stack.ts';

/** Milliseconds before the first new start; doubled each time that the process ends again soon, up to the maximum. */
const PAUSE_MS = 250;
const PAUSE_MS_MAX = 30_000;
/** Milliseconds that a process must have been up for its end to count as the first one again. */
const STEADY_MS = 60_000;
/** Starts in a row without getting ready after which there is no hope. */
const STARTS_MAX = 5;

export interface Watcher {
  /** Takes a line for the terminal. */
  say(line: string): void;
  /** Called when a process cannot be brought back. */
  giveUp(reason: Error): void;
}

/**
 * Starts every process of the stack again that ends, until the function that it returns is called. Without its database
 * nothing can go on: its end is the end of them all.
 */
export function keepRunning(stack: Stack, watcher: Watcher): () => void {
  let stopped = false;
  const isStopped = (): boolean => stopped;
  const keep = async (first: StackProcess): Promise<void> => {
    const { name } = first;
    let running = first;
    let endsInARow = 0;
    while (!isStopped()) {
      const since = performance.now();
      await running.ended;
      if (isStopped()) return;
      endsInARow = performance.now() - since < STEADY_MS ? endsInARow + 1 : 1;
      watcher.say(`${name} ended (${running.endedBy()}); starting it again`);
      for (let starts = 1; ; starts++) {
        await pause(endsInARow + starts - 2);
        if (isStopped()) return;
        try {
          running = await stack.startAgain(name);
          break;
        } catch (error) {
          if (isStopped()) return;
          if (starts === STARTS_MAX) {
            watcher.giveUp(error as Error);
            return;
          }
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

function pause(doublings: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(PAUSE_MS * 2 ** doublings, PAUSE_MS_MAX)));
}
