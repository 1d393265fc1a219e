import type { Worker } from '@nightshift/client';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { Confirm } from '../parts/confirm.tsx';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { Empty, ErrorNotice } from '../parts/notices.tsx';
import { count } from '../parts/numbers.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';

const QUERY_KEY = ['workers'];

const COLUMNS: readonly Column<Worker>[] = [
  {
    head: 'Worker',
    cell: ({ name, host, pid }) => (
      <>
        {name}
        <div className="small muted">
          {host} · {pid}
        </div>
      </>
    ),
  },
  { head: 'State', cell: ({ state }) => <StateMark state={state} /> },
  { head: 'Holds', cell: ({ leases }) => <span className="muted">{heldText(leases)}</span> },
  {
    head: 'Tools',
    cell: ({ tools }) => <span title={tools.join(', ')}>{count(tools.length)}</span>,
    isNumber: true,
    isWideOnly: true,
  },
  { head: 'Version', cell: ({ version }) => version, isWideOnly: true },
  { head: 'Started', cell: ({ started_at }) => <Time at={started_at} />, isWideOnly: true },
  { head: 'Heartbeat', cell: ({ heartbeat_at }) => <Time at={heartbeat_at} /> },
  { head: 'Actions', cell: (worker) => <Drain worker={worker} /> },
];

function heldText(leases: Worker['leases']): string {
  const held = Object.entries(leases).filter(([, number]) => number > 0);
  return held.length === 0
    ? 'nothing'
    : held.map(([kind, number]) => `${count(number)} ${kind.replaceAll('_', ' ')}`).join(' · ');
}

/** Lists the workers, and drains one. */
export function Workers() {
  const workers = useQuery({
    queryKey: QUERY_KEY,
    queryFn: () => nightshift.admin.workers(),
    refetchInterval: 5_000,
  });
  return (
    <Page title="Workers">
      <QueryPart of={workers}>
        {(list) =>
          list.length === 0 ? (
            <Empty command="WORKERS=2 npm start">No worker runs, so no batch moves.</Empty>
          ) : (
            <ListTable label="Workers" items={list} columns={COLUMNS} keyOf={({ id }) => id} />
          )
        }
      </QueryPart>
    </Page>
  );
}

function Drain({ worker: { id, name, state } }: { readonly worker: Worker }) {
  const queries = useQueryClient();
  const drain = useMutation({
    mutationFn: () => nightshift.admin.drainWorker(id),
    onSettled: () => queries.invalidateQueries({ queryKey: QUERY_KEY }),
  });
  if (state !== 'alive') return null;
  return (
    <>
      <Confirm action="Drain" question={`Drain ${name}?`} onConfirm={() => drain.mutate()}>
        It takes no new work, finishes its work under way, and ends. It is not started again.
      </Confirm>
      {drain.error !== null && <ErrorNotice error={drain.error} />}
    </>
  );
}
