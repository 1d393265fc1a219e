const UNITS = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
  ['year', Number.POSITIVE_INFINITY],
] as const satisfies readonly (readonly [Intl.RelativeTimeFormatUnit, number])[];

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
const EXACT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });
const SHORT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });

/** Says how far a time is from now. */
export function distance(at: Date, now: Date): string {
  let amount = (at.getTime() - now.getTime()) / 1_000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(amount) < size) return RELATIVE.format(Math.round(amount), unit);
    amount /= size;
  }
  return '';
}

/** The time of day in the viewer's zone. */
export const clockOf = (at: string): string => CLOCK.format(new Date(at));

/** The day in the viewer's zone, without its year. */
export const dayOf = (at: string): string => DAY.format(new Date(at));

/** The date and the time of day in the viewer's zone. */
export const dateOf = (at: string): string => SHORT.format(new Date(at));

/** Shows a time as a distance, or as a date, in the viewer's zone; the exact time on hover. */
export function Time({
  at,
  as = 'distance',
}: {
  readonly at: string | null;
  readonly as?: 'distance' | 'date';
}) {
  if (at === null) return <span className="muted">–</span>;
  const date = new Date(at);
  return (
    <time dateTime={at} title={EXACT.format(date)}>
      {as === 'date' ? dateOf(at) : distance(date, new Date())}
    </time>
  );
}
