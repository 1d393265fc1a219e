/** Workers that end over the same work, one after the other, from which on it is taken apart. */
export const CRASHES_MAX = 3;

/** By how much chunks shrink with each of them. */
const CHUNK_DIVISOR = 10;

/** Lines of results that are taken together after `lapses` workers did not outlive them, of `chunkLines`: at last one. */
export function linesAfterCrashes(lapses: number, chunkLines: number): number {
  return Math.max(1, Math.floor(chunkLines / CHUNK_DIVISOR ** Math.max(0, lapses - CRASHES_MAX + 1)));
}
