import { offsetReader } from '../base/zone-offset.ts';

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:?\d{2})?$/i;
const DAY_MS = 86_400_000;
/** JavaScript and Postgres write only years of four digits in the same way. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');
/** No zone had changed its offset by then. */
const UNCHANGED_MS = Date.UTC(1000, 0, 1);

/** End of a time span that a text names: a bare date is its whole day. */
export type SpanEnd = 'start' | 'end';

/**
 * Parses an ISO 8601 date or time; without an offset it is read in `timeZone` (IANA).
 * A bare date is the first or last millisecond of its day there. Times before the year 1 or after 9999 UTC become the
 * nearest valid time. Null for any other text and for impossible dates and offsets.
 */
export function parseZonedTime(text: string, timeZone: string, end: SpanEnd): Date | null {
  const at = momentMs(text, timeZone, end);
  return at === null ? null : new Date(Math.min(Math.max(at, FIRST_MS), LAST_MS));
}

function momentMs(text: string, timeZone: string, end: SpanEnd): number | null {
  const trimmed = text.trim();
  const date = DATE.exec(trimmed);
  if (date !== null) {
    const midnight = localMs(date.slice(1, 4), []);
    if (midnight === null) return null;
    return end === 'start' ? zonedMs(midnight, timeZone) : zonedMs(midnight + DAY_MS, timeZone) - 1;
  }
  const time = DATE_TIME.exec(trimmed);
  if (time === null) return null;
  const [, year = '', month = '', day = '', hour = '', minute = '', second, fraction, offset] = time;
  const local = localMs([year, month, day], [hour, minute, second ?? '0', (fraction ?? '0').slice(0, 3)]);
  if (local === null) return null;
  if (offset === undefined) return zonedMs(local, timeZone);
  const ahead = offsetMs(offset);
  return ahead === null ? null : local - ahead;
}

/** Converts a local date and time to milliseconds as if in UTC; null if invalid, such as 30 February or 24:00. */
function localMs(date: readonly string[], time: readonly string[]): number | null {
  const [year = 0, month = 0, day = 0] = date.map(Number);
  const [hour = 0, minute = 0, second = 0] = time.slice(0, 3).map(Number);
  const ms = Number((time[3] ?? '0').padEnd(3, '0'));
  if (hour > 23 || minute > 59 || second > 59) return null;
  const read = new Date(0);
  // `Date.UTC` takes the years up to 99 as years of the last century.
  read.setUTCFullYear(year, month - 1, day);
  if (read.getUTCMonth() !== month - 1 || read.getUTCDate() !== day) return null;
  return read.setUTCHours(hour, minute, second, ms);
}

function offsetMs(offset: string): number | null {
  if (offset.toUpperCase() === 'Z') return 0;
  const [hours, rest] = [Number(offset.slice(1, 3)), Number(offset.slice(-2))];
  if (hours > 23 || rest > 59) return null;
  const minutes = hours * 60 + rest;
  return (offset.startsWith('-') ? -minutes : minutes) * 60_000;
}

/**
 * Returns the time at which clocks of the zone show `local`.
 * A repeated hour means its first pass; a skipped hour is read as if it were not skipped.
 */
function zonedMs(local: number, timeZone: string): number {
  const before = local - zoneOffsetMs(local - DAY_MS, timeZone);
  const after = local - zoneOffsetMs(local + DAY_MS, timeZone);
  const earlier = Math.min(before, after);
  return earlier + zoneOffsetMs(earlier, timeZone) === local ? earlier : Math.max(before, after);
}

/** Returns the offset of the zone ahead of UTC at a time; 0 for an unknown zone. */
function zoneOffsetMs(moment: number, timeZone: string): number {
  try {
    return offsetReader(timeZone)(Math.max(moment, UNCHANGED_MS));
  } catch {
    return 0;
  }
}
