import type { Batch, FailureGroup } from '@nightshift/client';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Fragment, useState } from 'react';
import { nightshift } from '../api/client.ts';
import { Confirm } from '../parts/confirm.tsx';
import { ListTable } from '../parts/list-table.tsx';
import { count, counted } from '../parts/numbers.tsx';
import { ErrorNotice } from '../parts/notices.tsx';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Time } from '../parts/time.tsx';

/** Groups that are read at first, and at most. */
const GROUPS_FIRST = 20;
const GROUPS_MAX = 1_000;

/** Shows the failed runs of a batch in groups of equal messages; nothing without failures. */
export function BatchErrors({ batch }: { readonly batch: Batch }) {
  const { failed, expired, cancelled, retrying } = batch.counts;
  const troubled = failed + expired + cancelled + retrying;
  const [limit, setLimit] = useState(GROUPS_FIRST);
  const groups = useQuery({
    queryKey: ['batch', batch.id, 'errors', limit, batch.completed_at],
    queryFn: () => nightshift.batches.errors(batch.id, { limit }),
    enabled: troubled > 0,
    refetchInterval: batch.completed_at === null && 5_000,
    placeholderData: keepPreviousData,
  });
  if (troubled === 0) return null;
  return (
    <Section title="Failures">
      <QueryPart of={groups}>
        {(data) => (
          <>
            <ListTable
              label="Failures by message"
              items={data.groups}
              columns={[
                { head: 'Message', cell: (group) => <Message group={group} /> },
                { head: 'Runs', cell: ({ runs, retrying: open }) => count(runs + open), isNumber: true },
                { head: 'Actions', cell: (group) => <Actions batch={batch} group={group} /> },
              ]}
              keyOf={({ error_group }) => error_group}
            />
            {data.groups.length < data.groups_total && (
              <p className="row small muted more">
                The largest {count(data.groups.length)} of {counted(data.groups_total, 'group')}.
                {limit < GROUPS_MAX && (
                  <button type="button" className="button" onClick={() => setLimit(GROUPS_MAX)}>
                    Show {data.groups_total > GROUPS_MAX ? count(GROUPS_MAX) : 'all'}
                  </button>
                )}
              </p>
            )}
          </>
        )}
      </QueryPart>
    </Section>
  );
}

function Message({ group: { stop_reason, samples, last_failed_at } }: { readonly group: FailureGroup }) {
  return (
    <>
      <div>{samples[0]?.message ?? stop_reason.replaceAll('_', ' ')}</div>
      <div className="small muted">
        {stop_reason.replaceAll('_', ' ')} · last <Time at={last_failed_at} /> · for example{' '}
        {samples.map(({ run_id, custom_id }, place) => (
          <Fragment key={run_id}>
            {place > 0 && ', '}
            <Link to="/runs/$runId" params={{ runId: run_id }}>
              {custom_id ?? run_id}
            </Link>
          </Fragment>
        ))}
      </div>
    </>
  );
}

interface ActionsProps {
  readonly batch: Batch;
  readonly group: FailureGroup;
}

function Actions({ batch, group: { error_group, runs, retrying } }: ActionsProps) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => nightshift.batches.retry(batch.id, { error_group }),
    onSuccess: ({ id }) => navigate({ to: '/batches/$batchId', params: { batchId: id } }),
  });
  const cancel = useMutation({
    mutationFn: () => nightshift.batches.cancelRuns(batch.id, { error_group }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['batch', batch.id] }),
  });
  const error = retry.error ?? cancel.error;
  return (
    <div className="row">
      {runs > 0 && (
        <button type="button" className="button" disabled={retry.isPending} onClick={() => retry.mutate()}>
          Retry these
        </button>
      )}
      {retrying > 0 && (
        <Confirm
          action="Cancel these"
          question={`Cancel ${counted(retrying, 'run')}?`}
          isBad
          onConfirm={() => cancel.mutate()}
        >
          They are not tried again. Their results so far are kept.
        </Confirm>
      )}
      {error !== null && <ErrorNotice error={error} />}
    </div>
  );
}
