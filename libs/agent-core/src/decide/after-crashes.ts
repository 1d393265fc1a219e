/** Workers that end over the same work, one after the other, from which on it is taken apart. */
export const CRASHES_MAX = 3;

/** By how much chunks are smaller from then on. */
const CHUNK_DIVISOR = 10;

/** Returns the result lines of a chunk, behind those that are applied one by one after {@link CRASHES_MAX} worker crashes. */
export function linesAfterCrashes(crashes: number, chunkLines: number): number {
  return crashes < CRASHES_MAX ? chunkLines : Math.max(1, Math.floor(chunkLines / CHUNK_DIVISOR));
}
