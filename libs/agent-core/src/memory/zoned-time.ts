const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?$/i;
const DAY_MS = 86_400_000;

/** Which end of a span of time a text names: a bare date is its whole day. */
export type SpanEnd = 'start' | 'end';

/**
 * The moment that an ISO 8601 date or time names; without an offset it is read in `timeZone` (IANA). A date alone is
 * the first or the last millisecond of that day there. Null for any other text, and for days that no month has.
 */
export function parseZonedTime(text: string, timeZone: string, end: SpanEnd): Date | null {
  const trimmed = text.trim();
  const date = DATE.exec(trimmed);
  if (date !== null) {
    const midnight = localMs(date.slice(1, 4), []);
    if (midnight === null) return null;
    return end === 'start'
      ? zonedDate(midnight, timeZone)
      : new Date(zonedDate(midnight + DAY_MS, timeZone).getTime() - 1);
  }
  const time = DATE_TIME.exec(trimmed);
  if (time === null) return null;
  const [, year = '', month = '', day = '', hour = '', minute = '', second, fraction, offset] = time;
  const local = localMs([year, month, day], [hour, minute, second ?? '0', (fraction ?? '0').slice(0, 3)]);
  if (local === null) return null;
  if (offset === undefined) return zonedDate(local, timeZone);
  return new Date(local - offsetMs(offset));
}

/** A wall clock's reading as if it were UTC, in milliseconds; null where no clock shows it. */
function localMs(date: readonly string[], time: readonly string[]): number | null {
  const [year = 0, month = 0, day = 0] = date.map(Number);
  const [hour = 0, minute = 0, second = 0] = time.slice(0, 3).map(Number);
  const ms = Number((time[3] ?? '0').padEnd(3, '0'));
  if (hour > 23 || minute > 59 || second > 59) return null;
  const at = Date.UTC(year, month - 1, day, hour, minute, second, ms);
  const read = new Date(at);
  return read.getUTCMonth() === month - 1 && read.getUTCDate() === day && read.getUTCFullYear() === year
    ? at
    : null;
}

function offsetMs(offset: string): number {
  if (offset.toUpperCase() === 'Z') return 0;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2));
  return (offset.startsWith('-') ? -minutes : minutes) * 60_000;
}

/**
 * The moment at which clocks of the zone show `local`. Of an hour that they show twice the first one is meant; one that
 * they skip is read as if they had not.
 */
function zonedDate(local: number, timeZone: string): Date {
  const before = local - zoneOffsetMs(local - DAY_MS, timeZone);
  const after = local - zoneOffsetMs(local + DAY_MS, timeZone);
  const earlier = Math.min(before, after);
  return new Date(earlier + zoneOffsetMs(earlier, timeZone) === local ? earlier : Math.max(before, after));
}

/** How far clocks of the zone are ahead of UTC at a moment; 0 for a zone that is not known. */
function zoneOffsetMs(at: number, timeZone: string): number {
  const parts = formatOf(timeZone)
    .formatToParts(at)
    .map(({ type, value }) => [type, Number(value)] as const);
  const clock: Partial<Record<string, number>> = Object.fromEntries(parts);
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = clock;
  const shown = Date.UTC(year, month - 1, day, hour, minute, second);
  return shown - Math.floor(at / 1000) * 1000;
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const options = {
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  } as const;
  try {
    return new Intl.DateTimeFormat('en-US', { ...options, timeZone });
  } catch {
    return new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' });
  }
}
