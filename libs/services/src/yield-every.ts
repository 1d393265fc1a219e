import { setImmediate } from 'node:timers/promises';

/**
 * Returns a function for long loops that yields to the event loop when the thread was blocked for `heldMsMax`.
 * Must not be used inside a transaction, whose locks would be held longer.
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
