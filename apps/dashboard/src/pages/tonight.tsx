import type { Checks } from '@nightshift/client';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { count, counted, usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Time } from '../parts/time.tsx';
import { detailsOf, type DetailsOf } from './check-details.ts';

type Upcoming = DetailsOf<'schedules'>['schedules'][number];

/** Schedules whose ticks are listed. */
const LISTED = 10;

/** Lists the ticks of the next 24 hours, each in the zone of its schedule. */
export function Tonight({ checks }: { readonly checks: UseQueryResult<Checks> }) {
  return (
    <Section title="Next 24 hours">
      <QueryPart of={checks}>
        {(found) => {
          const due = detailsOf(found, 'schedules')?.schedules ?? [];
          if (due.length === 0)
            return <Empty command="npx nightshift schedules create nightly.json">No schedule is due.</Empty>;
          return (
            <ul className="card tonight">
              {due.slice(0, LISTED).map((schedule) => (
                <Tick key={schedule.schedule_id} due={schedule} />
              ))}
              {due.length > LISTED && (
                <li className="small">
                  <Link to="/schedules">{counted(due.length - LISTED, 'more schedule')}</Link>
                </li>
              )}
            </ul>
          );
        }}
      </QueryPart>
    </Section>
  );
}

function Tick({ due }: { readonly due: Upcoming }) {
  const { schedule_id, name, next_tick, ticks, agents, last_costs_usd, problems } = due;
  const last = last_costs_usd[0];
  return (
    <li>
      <ZoneTime scheduleId={schedule_id} at={next_tick} />
      <div>
        <Link to="/schedules/$scheduleId" params={{ scheduleId: schedule_id }}>
          {name}
        </Link>
        {ticks > 1 && <span className="muted small"> and {counted(ticks - 1, 'more tick')}</span>}
        {problems.map((problem) => (
          <p key={problem} className="small tone-warn">
            {problem}
          </p>
        ))}
      </div>
      <span className="muted small">
        {agents !== null && `${count(agents)} ${agents === 1 ? 'run' : 'runs'}`}
        {last !== undefined && ` · last ${usd(last)}`}
      </span>
    </li>
  );
}

/** Shows the time of a tick in the zone of its schedule. */
function ZoneTime({ scheduleId, at }: { readonly scheduleId: string; readonly at: string }) {
  const schedule = useQuery({
    queryKey: ['schedules', scheduleId],
    queryFn: () => nightshift.schedules.retrieve(scheduleId),
    staleTime: 60_000,
  });
  if (schedule.data === undefined) return <Time at={at} />;
  const { time_zone } = schedule.data;
  const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: time_zone });
  return (
    <span title={`${at}, ${time_zone}`}>
      {clock.format(new Date(at))} <span className="muted small">{cityOf(time_zone)}</span>
    </span>
  );
}

const cityOf = (zone: string): string => zone.slice(zone.lastIndexOf('/') + 1).replaceAll('_', ' ');
