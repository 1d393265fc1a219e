import type { OffsetReader } from '@nightshift/agent-core';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/**
 * Converts a time on the wall, given as if it were UTC, to the first moment that shows it. A time within a gap becomes the end
 * of the gap.
 */
export function firstMomentOf(wall: number, offsetAt: OffsetReader): number {
  const before = offsetAt(wall - DAY_MS);
  const after = offsetAt(wall + DAY_MS);
  // The larger offset is the earlier moment.
  for (const offset of before > after ? [before, after] : [after, before]) {
    if (offsetAt(wall - offset) === offset) return wall - offset;
  }
  return changeBetween(wall - Math.max(before, after), wall - Math.min(before, after), offsetAt);
}

/** Finds the change of an offset between two moments, to the minute. */
function changeBetween(early: number, late: number, offsetAt: OffsetReader): number {
  const offset = offsetAt(early);
  let [low, high] = [early, late];
  while (high - low > MINUTE_MS) {
    const middle = Math.floor((low + high) / 2 / MINUTE_MS) * MINUTE_MS;
    if (offsetAt(middle) === offset) low = middle;
    else high = middle;
  }
  return high;
}
