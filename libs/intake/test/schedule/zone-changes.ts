/** Moments of rules around changes of offsets, by counting minutes: an oracle without a cron library. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2027, 0, 1) };

/** A change of a zone's offset. */
export interface Change {
  readonly at: number;
  readonly before_ms: number;
  readonly after_ms: number;
}

function offsetReader(time_zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: time_zone,
    hourCycle: 'h23',
    ...{
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    },
  });
  return (at) => {
    const parts = Object.fromEntries(
      format.formatToParts(at).map(({ type, value }) => [type, Number(value)]),
    );
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - at;
  };
}

/** Finds the changes of a zone's offset in 2026, by halving. */
function changesOf(time_zone: string): readonly Change[] {
  const offsetAt = offsetReader(time_zone);
  const changes: Change[] = [];
  for (let day = YEAR.from; day < YEAR.to; day += 7 * DAY) {
    const before_ms = offsetAt(day);
    const after_ms = offsetAt(day + 7 * DAY);
    if (before_ms === after_ms) continue;
    let low = day;
    let high = day + 7 * DAY;
    while (high - low > MINUTE) {
      const middle = Math.floor((low + high) / 2 / MINUTE) * MINUTE;
      if (offsetAt(middle) === before_ms) low = middle;
      else high = middle;
    }
    changes.push({ at: high, before_ms, after_ms });
  }
  return changes;
}

/** Returns every zone whose offset changes in 2026, with its changes. */
export function changingZones(): readonly {
  readonly time_zone: string;
  readonly changes: readonly Change[];
}[] {
  return Intl.supportedValuesOf('timeZone')
    .map((time_zone) => ({ time_zone, changes: changesOf(time_zone) }))
    .filter(({ changes }) => changes.length > 0);
}

/** Returns the moments of a rule in a span on either side of a change, without the first. Unit of `span_ms`: ms. */
export function momentsOf(
  change: Change,
  minutes: readonly number[],
  hours: readonly number[],
  isFixed: boolean,
  span_ms = DAY,
): readonly number[] {
  const { at, before_ms, after_ms } = change;
  const from = at - span_ms;
  const to = at + span_ms;
  const local = (moment: number): number => moment + (moment < at ? before_ms : after_ms);
  const matches = (wall: number): boolean => {
    const date = new Date(wall);
    return minutes.includes(date.getUTCMinutes()) && hours.includes(date.getUTCHours());
  };
  const found = new Set<number>();
  const walls = new Set<number>();
  for (let moment = from; moment <= to; moment += MINUTE) {
    const wall = local(moment);
    if (!matches(wall) || (isFixed && walls.has(wall))) continue;
    walls.add(wall);
    found.add(moment);
  }
  if (isFixed) {
    for (let wall = at + before_ms; wall < at + after_ms; wall += MINUTE) if (matches(wall)) found.add(at);
  }
  return [...found].filter((moment) => moment > from && moment <= to).sort((one, other) => one - other);
}
