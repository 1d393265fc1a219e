import { NightshiftError, offsetReader, type FieldError } from '@nightshift/agent-core';
import { Cron } from 'croner';
import cronstrue from 'cronstrue';
import { firstMomentOf } from './first-moment.ts';

/** A cron rule of five fields in an IANA time zone. */
export interface ScheduleRule {
  readonly cron: string;
  readonly time_zone: string;
}

const FIELDS = 5;
const CRON_CHARS_MAX = 200;
/** Croner's `?` stands for the present time, so a rule with it would mean something else at each start. */
const CRON_CHARS = /^[0-9A-Za-z*,/#-]+$/;
/** Intl also takes offsets such as +01:00, which know no daylight saving time. */
const OFFSET = /^[+-]/;
/** A field without a wildcard or a step. */
const FIXED = /^[0-9,-]+$/;

/**
 * Returns the first moment of a rule after a time; null if there is none.
 * A rule with fixed hours and minutes (lists and ranges included) runs at the end of a gap in local time, and once where an
 * hour comes twice. Other rules skip the gap and run in both hours.
 * Throws: `validation_failed` for an invalid rule.
 */
export function nextTick(rule: ScheduleRule, after: Date): Date | null {
  return parse(rule)(after);
}

/** Returns up to `count` moments of a rule after a time, in order. */
export function nextTicks(rule: ScheduleRule, after: Date, count: number): readonly Date[] {
  const next = parse(rule);
  const ticks: Date[] = [];
  for (let tick = next(after); tick !== null && ticks.length < count; tick = next(tick)) ticks.push(tick);
  return ticks;
}

/** Returns the moments of a rule from `first` (a moment of the rule) up to `last`, at most `max`. */
export function ticksUntil(rule: ScheduleRule, first: Date, last: Date, max: number): readonly Date[] {
  const next = parse(rule);
  const ticks: Date[] = [];
  for (let tick: Date | null = first; tick !== null && tick <= last && ticks.length < max;) {
    ticks.push(tick);
    tick = next(tick);
  }
  return ticks;
}

/** Puts a rule into English words: `At 02:00, Europe/Berlin`. */
export function describeRule({ cron, time_zone }: ScheduleRule): string {
  return `${cronstrue.toString(cron, { use24HourTimeFormat: true })}, ${time_zone}`;
}

/** Returns the first moment of the calendar month of `moment` in the zone, and of the next month. */
export function monthOf(time_zone: string, moment: Date): { readonly from: Date; readonly to: Date } {
  const nextMonth = parse({ cron: '0 0 1 * *', time_zone });
  const longestMonthMs = 32 * 86_400_000;
  let from = new Date(moment.getTime() - 2 * longestMonthMs);
  for (let next = nextMonth(from); next !== null; next = nextMonth(from)) {
    if (next > moment) return { from, to: next };
    from = next;
  }
  return { from, to: moment };
}

/**
 * Checks a rule at a time.
 * Throws: `validation_failed` with the field: not five fields, an unknown zone, or no moment at all.
 */
export function assertRule(rule: ScheduleRule, now: Date): void {
  if (nextTick(rule, now) === null) {
    throw invalid('/cron', `has no moment at all: '${rule.cron}' names a day that no month has`);
  }
}

/** Returns the first moment of a rule after a time. */
type NextMoment = (after: Date) => Date | null;

function parse({ cron, time_zone }: ScheduleRule): NextMoment {
  assertZone(time_zone);
  const [minute = '', hour = ''] = assertFields(cron);
  const isFixed = FIXED.test(minute) && FIXED.test(hour);
  if (!isFixed) {
    const zoned = openCron(cron, time_zone);
    return (after) => zoned.nextRun(after);
  }
  // Croner in the zone loses a time in a gap that ends on the next day, as of Nuuk in March.
  const walls = openCron(cron, 'UTC');
  const offsetAt = offsetReader(time_zone);
  return (after) => {
    for (let wall = new Date(after.getTime() + offsetAt(after.getTime())); ;) {
      const next = walls.nextRun(wall);
      if (next === null) return null;
      const moment = firstMomentOf(next.getTime(), offsetAt);
      if (moment > after.getTime()) return new Date(moment);
      wall = next;
    }
  };
}

function openCron(cron: string, timezone: string): Cron {
  try {
    return new Cron(cron, { paused: true, mode: '5-part', timezone });
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error);
    throw invalid('/cron', `is not a cron rule: ${reason.replace(/\.$/, '')}`);
  }
}

function assertZone(name: string): void {
  try {
    if (OFFSET.test(name)) throw new RangeError(name);
    new Intl.DateTimeFormat('en', { timeZone: name });
  } catch {
    throw invalid('/time_zone', `'${name}' is not an IANA time zone; write for example Europe/Berlin`);
  }
}

/** Returns the fields of a rule. Throws: `validation_failed` for another number of them, or odd characters. */
function assertFields(cron: string): readonly string[] {
  const fields = cron.trim().split(/\s+/);
  if (fields.length === FIELDS + 1) {
    throw invalid('/cron', 'must have five fields, without seconds: a rule runs at most once a minute');
  }
  if (fields.length !== FIELDS) {
    throw invalid(
      '/cron',
      "must have five fields: minute, hour, day, month, weekday; for example '0 2 * * *'",
    );
  }
  const odd = fields.find((field) => !CRON_CHARS.test(field));
  if (odd !== undefined || cron.length > CRON_CHARS_MAX) {
    throw invalid(
      '/cron',
      `must hold digits, names and * , - / # only, and at most ${CRON_CHARS_MAX} characters`,
    );
  }
  return fields;
}

function invalid(path: string, message: string): NightshiftError {
  const fields: readonly FieldError[] = [{ path, message }];
  return new NightshiftError('validation_failed', `${path} ${message}.`, { fields });
}
