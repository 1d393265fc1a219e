/** What is put away when the bench is told to end before it is done: processes and servers, the last one first. */

type Stop = () => Promise<void>;

const stops = new Set<Stop>();
let ending = false;

/** Whether the bench was told to end: whatever fails from now on says nothing. */
export function isEnding(): boolean {
  return ending;
}

/**
 * Has `stop` called when the bench is told to end, unless its owner has called the function returned, which stops at
 * most once. Throws, and stops at once, when the bench is ending already.
 */
export function stoppedAtEnd(stop: Stop): Stop {
  let stopping: Promise<void> | undefined;
  const once: Stop = () => (stopping ??= stop().finally(() => stops.delete(once)));
  stops.add(once);
  if (ending) {
    void once().catch(() => undefined);
    throw new Error('The bench is ending.');
  }
  return once;
}

/** Stops everything; what cannot be stopped is left to the end of this process. */
export async function stopEverything(): Promise<void> {
  ending = true;
  for (const stop of [...stops].reverse()) await stop().catch(() => undefined);
}
