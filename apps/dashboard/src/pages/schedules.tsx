import type { Schedule } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { readPage } from '../api/pages-of.ts';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';

const COLUMNS: readonly Column<Schedule>[] = [
  {
    head: 'Schedule',
    cell: ({ id, name, description }) => (
      <>
        <Link to="/schedules/$scheduleId" params={{ scheduleId: id }}>
          {name}
        </Link>
        <div className="small muted">{description}</div>
      </>
    ),
  },
  { head: 'State', cell: ({ state }) => <StateMark state={state} /> },
  { head: 'Next', cell: ({ next_ticks }) => <Time at={next_ticks[0] ?? null} /> },
  {
    head: 'Last',
    cell: ({ last_tick }) =>
      last_tick === null ? <span className="muted">–</span> : <StateMark state={last_tick.outcome} />,
  },
  {
    head: 'This month',
    // Counted only for a schedule with a cap for the month.
    cell: ({ spent_usd_this_month: spent }) => (spent === null ? '–' : usd(spent)),
    isNumber: true,
    isWideOnly: true,
  },
];

/** Lists schedules with their next tick. */
export function Schedules() {
  const schedules = useQuery({
    queryKey: ['schedules', 'list'],
    queryFn: () => readPage(nightshift.schedules.list()),
    refetchInterval: 10_000,
  });
  return (
    <Page
      title="Schedules"
      actions={
        <Link to="/schedules/new" className="button button-main">
          New schedule
        </Link>
      }
    >
      <QueryPart of={schedules}>
        {(list) =>
          list.length === 0 ? (
            <Empty command="npx nightshift schedules create nightly.json">There is no schedule yet.</Empty>
          ) : (
            <ListTable label="Schedules" items={list} columns={COLUMNS} keyOf={({ id }) => id} />
          )
        }
      </QueryPart>
    </Page>
  );
}
