import { yieldEvery as createBreather } from '@nightshift/services';

/** Milliseconds that one request may hold the thread. */
export const HELD_MS_MAX = 20;

/** As that of services, for a request. */
export const yieldEvery = (): (() => Promise<void> | null) => createBreather(HELD_MS_MAX);

/** What `map` makes of each item, with other requests let through between them. */
export async function mapWithBreath<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const breathe = yieldEvery();
  const results: Result[] = [];
  for (const item of items) {
    await breathe();
    results.push(map(item));
  }
  return results;
}
