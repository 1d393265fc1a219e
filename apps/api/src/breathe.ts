import { setImmediate } from 'node:timers/promises';

/** Milliseconds that one request may hold the thread. */
export const HELD_MS_MAX = 20;

/** A check for long loops: awaited in each round, it lets other requests through when the loop has held the thread for long. */
export function breather(): () => Promise<void> | null {
  let since = performance.now();
  return () => {
    if (performance.now() - since < HELD_MS_MAX) return null;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}

/** What `map` makes of each item, with other requests let through between them. */
export async function mapWithBreath<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const breathe = breather();
  const results: Result[] = [];
  for (const item of items) {
    await breathe();
    results.push(map(item));
  }
  return results;
}
