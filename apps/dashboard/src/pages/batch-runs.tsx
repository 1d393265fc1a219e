import type { Run } from '@nightshift/client';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { askForNext, itemsOf, nextPage, PAGE_SIZE, readPage, refreshWhileShort } from '../api/pages-of.ts';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';

const STATES = [
  'failed',
  'expired',
  'requires_action',
  'in_flight',
  'ready',
  'queued',
  'completed',
  'cancelled',
] as const;

const COLUMNS: readonly Column<Run>[] = [
  {
    head: 'Run',
    cell: ({ id, custom_id }) => (
      <Link to="/runs/$runId" params={{ runId: id }} className="mono">
        {custom_id ?? id}
      </Link>
    ),
  },
  { head: 'State', cell: ({ state }) => <StateMark state={state} /> },
  {
    head: 'Ended',
    cell: ({ ended_reason }) => <span className="muted">{ended_reason?.replaceAll('_', ' ')}</span>,
  },
  { head: 'Steps', cell: ({ usage }) => usage.steps, isNumber: true, isWideOnly: true },
  { head: 'Cost', cell: ({ usage }) => usd(usage.cost_usd), isNumber: true },
  { head: 'Created', cell: ({ created_at }) => <Time at={created_at} />, isWideOnly: true },
];

interface BatchRunsProps {
  readonly batchId: string;
  /** Whether runs may still change. */
  readonly isOpen: boolean;
}

/** Lists the runs of a batch, also a hundred thousand. */
export function BatchRuns({ batchId, isOpen }: BatchRunsProps) {
  const [state, setState] = useState<(typeof STATES)[number] | undefined>(undefined);
  const runs = useInfiniteQuery({
    // Beside the batch: an event reads the batch again, and not each page of its runs.
    queryKey: ['runs', batchId, state],
    queryFn: ({ pageParam }) =>
      readPage(nightshift.runs.list({ batch_id: batchId, state, limit: PAGE_SIZE, after: pageParam })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextPage,
    ...refreshWhileShort(isOpen && 5_000),
  });
  return (
    <>
      <div className="filters">
        <select
          className="input"
          aria-label="State of runs"
          value={state ?? ''}
          onChange={({ target }) => setState(STATES.find((name) => name === target.value))}
        >
          <option value="">Any state</option>
          {STATES.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
      <QueryPart of={runs}>
        {(data) =>
          itemsOf(data).length === 0 ? (
            <Empty>No run is in this state.</Empty>
          ) : (
            <ListTable
              label="Runs"
              items={itemsOf(data)}
              columns={COLUMNS}
              keyOf={({ id }) => id}
              onEnd={askForNext(runs)}
            />
          )
        }
      </QueryPart>
    </>
  );
}
