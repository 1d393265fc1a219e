import type { UsageItem } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { counted, usd } from '../parts/numbers.tsx';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';

const DAYS = 14;
const DAY_MS = 86_400_000;
const SHORT = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** A day in UTC with its cost. */
interface Day {
  readonly date: string;
  readonly cost: number;
  readonly steps: number;
}

/** Shows the cost of each of the last 14 days, and how much of the input was read from the cache. */
export function Spend() {
  const usage = useQuery({
    queryKey: ['overview', 'usage'],
    queryFn: async () => {
      const to = new Date();
      const from = new Date(to.getTime() - (DAYS - 1) * DAY_MS);
      const { data } = await nightshift.admin.usage({ group_by: 'day', from: dayOf(from), to: dayOf(to) });
      return { days: fillDays(data, from), hits: cacheHits(data), total: costOf(data) };
    },
    refetchInterval: 60_000,
  });
  return (
    <Section title="Spend of 14 days">
      <QueryPart of={usage}>
        {({ days, hits, total }) => (
          <div className="card spend">
            <dl className="facts">
              <div>
                <dt>Spent</dt>
                <dd>{usd(total)}</dd>
              </div>
              <div>
                <dt>Today, in UTC</dt>
                <dd>{usd(days.at(-1)?.cost ?? 0)}</dd>
              </div>
              <div>
                <dt>Input read from the cache</dt>
                <dd>{hits === null ? '–' : `${hits} %`}</dd>
              </div>
            </dl>
            <Bars days={days} />
          </div>
        )}
      </QueryPart>
    </Section>
  );
}

const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

const costOf = (items: readonly UsageItem[]): number =>
  items.reduce((sum, { cost_usd }) => sum + Number(cost_usd), 0);

/** Returns all days, also those without a batch. */
function fillDays(items: readonly UsageItem[], from: Date): readonly Day[] {
  const byDate = new Map(items.map((item) => [item.key, item]));
  return Array.from({ length: DAYS }, (_, place) => {
    const date = dayOf(new Date(from.getTime() + place * DAY_MS));
    const item = byDate.get(date);
    return { date, cost: Number(item?.cost_usd ?? 0), steps: item?.steps ?? 0 };
  });
}

/** Returns the share of input tokens that were read from the cache, in percent; null without input. */
function cacheHits(items: readonly UsageItem[]): number | null {
  const read = items.reduce((sum, item) => sum + item.cache_read_tokens, 0);
  const all = items.reduce((sum, item) => sum + item.input_tokens + item.cache_write_tokens, read);
  return all === 0 ? null : Math.round((100 * read) / all);
}

function Bars({ days }: { readonly days: readonly Day[] }) {
  const highest = Math.max(...days.map(({ cost }) => cost)) || 1;
  const width = 100 / days.length;
  return (
    <figure>
      <svg
        className="days"
        role="img"
        aria-label={days.map(({ date, cost }) => `${date}: ${usd(cost)}`).join(', ')}
      >
        {days.map(({ date, cost, steps }, place) => {
          // A day without cost keeps a line, so that the row of days is seen.
          const height = Math.max(2, (100 * cost) / highest);
          return (
            <g key={date}>
              <title>{`${SHORT.format(new Date(date))}: ${usd(cost)}, ${counted(steps, 'step')}`}</title>
              <rect className="day-ground" x={`${place * width}%`} width={`${width}%`} height="100%" />
              <rect
                className={cost === 0 ? 'day day-empty' : 'day'}
                x={`${(place + 0.15) * width}%`}
                y={`${100 - height}%`}
                width={`${0.7 * width}%`}
                height={`${height}%`}
                rx="2"
              />
            </g>
          );
        })}
      </svg>
      <figcaption className="days-ends small muted">
        <span>{SHORT.format(new Date(days[0]?.date ?? 0))}</span>
        <span>today</span>
      </figcaption>
    </figure>
  );
}
