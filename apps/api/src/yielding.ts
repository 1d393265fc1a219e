import { yieldEvery as createYielder } from '@nightshift/services';

/** Longest time that a request may hold the thread. Unit: milliseconds. */
export const HELD_MS_MAX = 20;

/** Creates a yielder with a request's time limit. */
export const yieldEvery = (): (() => Promise<void> | null) => createYielder(HELD_MS_MAX);

/** Maps items, and yields to other requests in between. */
export async function mapYielding<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const yieldIfDue = yieldEvery();
  const results: Result[] = [];
  for (const item of items) {
    await yieldIfDue();
    results.push(map(item));
  }
  return results;
}
