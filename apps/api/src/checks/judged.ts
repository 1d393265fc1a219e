import type { Tx } from '@nightshift/db';
import type { Context } from '../context.ts';
import type { CheckName, DetailsOf, Judged } from '../schemas/checks.ts';

/** What a check works with. */
export interface Scene {
  readonly context: Context;
  /** End of the look at schedules. */
  readonly until: Date;
  /** Runs the statements of a check, each with the timeout of a check. */
  readonly read: <T>(work: (db: Tx) => Promise<T>) => Promise<T>;
}

/** Looks at one part of the installation. It may throw: a failed check is a finding. */
export type CheckFunction<Name extends CheckName> = (scene: Scene) => Promise<Judged<Name>>;

/** A finding and its advice. */
type Trouble = readonly [status: 'warning' | 'failing', finding: string, advice: string];

/** Returns the first trouble, the failing ones before the warnings; without any, the finding of a sound part. */
export function judge<Name extends CheckName>(
  details: DetailsOf<Name>,
  sound: string,
  troubles: readonly (Trouble | null | false)[],
): Judged<Name> {
  const found = troubles.filter((trouble) => trouble !== null && trouble !== false);
  const [status, finding, advice] = found.find(([status]) => status === 'failing') ??
    found[0] ?? ['ok' as const, sound, null];
  return { status, finding, advice, details } as Judged<Name>;
}

const UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** Formats a size: 1,234,567 → `1.2 MB`. */
export function sizeOf(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const value = bytes / 1000 ** unit;
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Formats a time span: 90 → `90 s`, 7,200 → `2 h`. */
export function spanOf(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** Formats a moment to the minute: `2030-01-31 03:00 UTC`. */
export function timeOf(moment: Date): string {
  return `${moment.toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length).replace('T', ' ')} UTC`;
}

/** Formats a number of things: `1 worker`, `2 workers`. */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const NAMES_LISTED = 5;

/** Lists the first names, and counts the rest. */
export function listOf(names: readonly string[]): string {
  const more = names.length - NAMES_LISTED;
  return names.slice(0, NAMES_LISTED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
