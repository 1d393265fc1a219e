/** Stops processes and servers when the bench is interrupted, the newest first. */

type Stop = () => Promise<void>;

const stops = new Set<Stop>();
let ending = false;

/** Tells whether the bench was interrupted; later errors then mean nothing. */
export function isEnding(): boolean {
  return ending;
}

/**
 * Registers `stop` for an interrupt, and returns a function that stops at most once and unregisters it.
 * Throws, and stops at once, when the bench is ending already.
 */
export function stoppedAtEnd(stop: Stop): Stop {
  let stopping: Promise<void> | undefined;
  const once: Stop = () => (stopping ??= stop().finally(() => stops.delete(once)));
  stops.add(once);
  if (ending) {
    void once().catch(() => undefined);
    throw new Error('The bench is being stopped.');
  }
  return once;
}

/** Stops everything that is registered. A stop that fails is left to the end of this process. */
export async function stopEverything(): Promise<void> {
  ending = true;
  for (const stop of [...stops].reverse()) await stop().catch(() => undefined);
}
