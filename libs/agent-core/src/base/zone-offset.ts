/** Reads the offset of a time zone from UTC at a time. Unit: ms, both. */
export type OffsetReader = (moment: number) => number;

/** Creates the reader of a zone's offset. Throws: RangeError for an unknown zone. */
export function offsetReader(timeZone: string): OffsetReader {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (moment) => {
    const parts = format.formatToParts(moment).map(({ type, value }) => [type, Number(value)] as const);
    const clock: Partial<Record<string, number>> = Object.fromEntries(parts);
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = clock;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(moment / 1000) * 1000;
  };
}
