import { constants } from 'node:os';
import { createShutdown, type Shutdown } from '../../libs/services/src/index.ts';
import type { Stack } from './stack.ts';

/** Calls `end` with the first shutdown signal. A second shutdown request, unless a duplicate, ends the process at once. */
export function heedSignals(shutdown: Shutdown, end: (signal: NodeJS.Signals) => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      const outcome = shutdown.request();
      if (outcome === 'at once') process.exit(1);
      if (outcome === 'first') end(signal);
    });
}

/**
 * Starts a stack, runs `work` on it and stops it. `told` is aborted when the work has ended or failed, so
 * that nothing more starts. A signal aborts `told` too, stops the stack and exits with 128 plus its number;
 * the work's outcome is then ignored.
 */
export async function workOnStack<T>(
  start: () => Promise<Stack>,
  work: (stack: Stack, told: AbortSignal) => Promise<T>,
): Promise<T> {
  const shutdown = createShutdown();
  const told = new AbortController();
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    // A failing start stops its own parts.
    const stack = await starting.catch(() => undefined);
    await (stopping ??= stack?.stop());
  };
  heedSignals(shutdown, (signal) => {
    told.abort();
    // The remaining work fails from here on, and its errors are ignored.
    process.on('unhandledRejection', () => undefined);
    console.error('Stopping …');
    void stop().finally(() => process.exit(128 + constants.signals[signal]));
  });
  const starting = start();
  try {
    return await work(await starting, told.signal);
  } finally {
    told.abort();
    // The shutdown in progress ends the process.
    if (shutdown.isRequested()) await new Promise(() => undefined);
    await stop();
  }
}
