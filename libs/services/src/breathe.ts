import { setImmediate } from 'node:timers/promises';

/**
 * A check for long loops: awaited in each round, it lets others through when the loop has held the thread for `heldMsMax`. Not
 * within a transaction, whose locks others would wait for.
 */
export function yieldEvery(heldMsMax: number): () => Promise<void> | null {
  let since = performance.now();
  return () => {
    if (performance.now() - since < heldMsMax) return null;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
