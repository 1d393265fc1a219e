import { CommandError } from '../failure.ts';

const CLOCK = /^([01]?\d|2[0-3]):([0-5]\d)$/;

/** Reads a time: `03:00` is the next such moment of local time. Throws a usage error for any other text. */
export function readTime(text: string, now: Date): Date {
  const [, hours, minutes] = CLOCK.exec(text) ?? [];
  if (hours === undefined) {
    const time = new Date(text);
    if (!Number.isNaN(time.getTime()) && /\d{4}-\d\d-\d\dT/.test(text)) return time;
    throw new CommandError(`--at ${text} is no time. Give one such as 03:00 or 2030-01-31T03:00:00Z.`);
  }
  const next = new Date(now);
  next.setHours(Number(hours), Number(minutes), 0, 0);
  if (next <= now) next.setDate(next.getDate() + 1);
  return next;
}
