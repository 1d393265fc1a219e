const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Reads the offset of a zone from UTC at a moment. Unit: ms. */
export type OffsetReader = (moment: number) => number;

/** Creates the reader of a zone's offset. Throws: RangeError for an unknown zone. */
export function offsetReader(time_zone: string): OffsetReader {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: time_zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (moment) => {
    const parts = new Map(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
    const of = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
    const wall = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
    return wall - Math.floor(moment / 1000) * 1000;
  };
}

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
