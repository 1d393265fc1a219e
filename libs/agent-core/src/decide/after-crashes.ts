/** Workers that end over the same work, one after the other, from which on it is taken apart. */
export const CRASHES_MAX = 3;

/** By how much chunks shrink with each of them. */
const CHUNK_DIVISOR = 10;

/** Returns the result lines of a chunk after `crashes` worker crashes: at first `chunkLines`, at last one. */
export function linesAfterCrashes(crashes: number, chunkLines: number): number {
  return Math.max(1, Math.floor(chunkLines / CHUNK_DIVISOR ** Math.max(0, crashes - CRASHES_MAX + 1)));
}
