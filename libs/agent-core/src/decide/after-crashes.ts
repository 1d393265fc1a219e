/** Consecutive worker crashes over the same work before its chunks shrink. */
export const CRASHES_MAX = 3;

/** Divisor of the chunk size from then on. */
const CHUNK_DIVISOR = 10;

/** Returns the chunk size behind the lines applied singly after {@link CRASHES_MAX} worker crashes. */
export function linesAfterCrashes(crashes: number, chunkLines: number): number {
  return crashes < CRASHES_MAX ? chunkLines : Math.max(1, Math.floor(chunkLines / CHUNK_DIVISOR));
}
