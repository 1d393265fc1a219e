import { setImmediate } from 'node:timers/promises';

/** Milliseconds that one flow may hold the thread, on which the leases of all are renewed. */
const HELD_MS_MAX = 50;

/** A check for long loops: awaited in each round, it lets others through when the loop has held the thread for long. */
export function breather(): () => Promise<void> | null {
  let since = performance.now();
  return () => {
    if (performance.now() - since < HELD_MS_MAX) return null;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
