import { duration } from '../parts/duration.ts';
import type { Interval } from './run-intervals.ts';

/** Steps and waits that are drawn; a run may have a thousand. */
const DRAWN_MAX = 200;

interface WaterfallProps {
  readonly intervals: readonly Interval[];
  /** Unit: milliseconds since 1970. */
  readonly now: number;
}

/** Draws the steps and waits of a run on one line of time. */
export function Waterfall({ intervals, now }: WaterfallProps) {
  if (intervals.length === 0) return <p className="small muted">No time was measured yet.</p>;
  const from = Math.min(...intervals.map((interval) => interval.from));
  const to = Math.max(...intervals.map((interval) => interval.to ?? now));
  const whole = Math.max(1, to - from);
  return (
    <>
      <ol className="waterfall" aria-label="Steps and waits">
        {intervals.slice(0, DRAWN_MAX).map((interval) => {
          const took = (interval.to ?? now) - interval.from;
          return (
            <li key={interval.key}>
              <span className="cut">
                {interval.isFailed && <span className="tone-bad">✕ </span>}
                {interval.name}
              </span>
              <svg aria-hidden className="waterfall-line">
                <rect
                  className={`interval interval-${interval.isFailed ? 'failed' : interval.kind}`}
                  x={`${(100 * (interval.from - from)) / whole}%`}
                  width={`${Math.max(0.5, (100 * took) / whole)}%`}
                  height="100%"
                  rx="2"
                />
              </svg>
              <span className="number small muted">{duration(took)}</span>
            </li>
          );
        })}
      </ol>
      <p className="small muted">
        {duration(whole)} in all
        {intervals.length > DRAWN_MAX && `; the first ${DRAWN_MAX} of ${intervals.length} are drawn`}
      </p>
      <Legend />
    </>
  );
}

const KINDS = [
  ['wait', 'waits'],
  ['provider', 'at the provider'],
  ['tools', 'tools'],
  ['caller', 'the caller'],
] as const;

function Legend() {
  return (
    <ul className="legend small muted">
      {KINDS.map(([kind, name]) => (
        <li key={kind}>
          <svg aria-hidden className="legend-mark">
            <rect className={`interval interval-${kind}`} width="100%" height="100%" rx="2" />
          </svg>
          {name}
        </li>
      ))}
    </ul>
  );
}
