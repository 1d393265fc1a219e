import type { Batch } from '@nightshift/client';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useBatchName } from '../api/batch-names.ts';
import { nightshift } from '../api/client.ts';
import { Ask } from '../parts/ask.tsx';
import { Bar } from '../parts/bar.tsx';
import { CallCounts, etaText } from '../parts/batch-progress.tsx';
import { Confirm } from '../parts/confirm.tsx';
import { count, counted, usd } from '../parts/numbers.tsx';
import { ErrorNotice } from '../parts/notices.tsx';
import { Page, Section } from '../parts/page.tsx';
import { QueryPage } from '../parts/query-page.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';
import { carryOut, failedRuns, isAllowed, type BatchAct } from './batch-acts.ts';
import { BatchErrors } from './batch-errors.tsx';
import { BatchRuns } from './batch-runs.tsx';
import { ReviewLink } from './review-link.tsx';
import { SameAs } from './same-as.tsx';
import { TimelineChart } from './timeline-chart.tsx';

const route = getRouteApi('/batches/$batchId');

/** Shows a batch: how far it is, what it cost, what failed, its runs. */
export function BatchPage() {
  const { batchId } = route.useParams();
  const batch = useQuery({
    queryKey: ['batch', batchId],
    queryFn: () => nightshift.batches.retrieve(batchId),
    refetchInterval: ({ state }) => (state.data?.progress?.phase === 'done' ? false : 1_000),
  });
  return (
    <QueryPage
      of={batch}
      title="Batch"
      gone="There is no such batch. It was deleted, or its retention has ended. The list of batches shows what is kept."
    >
      {(data) => <Shown batch={data} />}
    </QueryPage>
  );
}

function Shown({ batch }: { readonly batch: Batch }) {
  const { progress } = batch;
  return (
    <Page
      title={useBatchName(batch)}
      aside={<StateMark state={progress?.phase ?? batch.state} />}
      actions={<Actions batch={batch} />}
    >
      {progress !== null && (
        <div className="card">
          <Bar
            done={progress.ended}
            total={progress.total}
            tone={batch.state === 'completed' ? 'good' : 'accent'}
          />
          <p className="row below">
            <strong>{progress.percent} %</strong>
            <span>
              {count(progress.ended)} of {counted(progress.total, 'run')}
            </span>
            {progress.runs_per_second !== null && <span>{progress.runs_per_second} a second</span>}
            <CallCounts progress={progress} />
            <span className={progress.waiting_reason === null ? 'muted' : 'tone-warn'}>
              {etaText(progress)}
            </span>
          </p>
        </div>
      )}
      <Facts batch={batch} />
      <BatchErrors batch={batch} />
      <Section title="Over time">
        <TimelineChart batch={batch} />
      </Section>
      <Section title="Runs">
        <BatchRuns batchId={batch.id} isOpen={batch.completed_at === null} />
      </Section>
      <SameAs path={`/v1/batches/${batch.id}`} command={`npx nightshift show ${batch.id}`} />
    </Page>
  );
}

function Facts({ batch }: { readonly batch: Batch }) {
  const { usage, limits, counts, pilot, schedule_id, retry_of } = batch;
  const facts: readonly (readonly [string, React.ReactNode])[] = [
    [
      'Cost',
      `${usd(usage.cost_usd)}${limits.max_cost_usd === null ? '' : ` of ${usd(limits.max_cost_usd)}`}`,
    ],
    ['Expected', usd(batch.expected_cost_usd)],
    ['Steps', count(usage.steps)],
    ['Tool calls', count(usage.tool_calls)],
    ['Failed runs', count(counts.failed + counts.expired)],
    ['Tokens in, out', `${count(usage.input_tokens)} · ${count(usage.output_tokens)}`],
    ['Created', <Time key="created" at={batch.created_at} />],
    ...(pilot === null ? [] : ([['Pilot', `${counted(pilot.runs, 'run')}, ${pilot.state}`]] as const)),
    ...(schedule_id === null
      ? []
      : ([
          [
            'Schedule',
            <Link key="schedule" to="/schedules/$scheduleId" params={{ scheduleId: schedule_id }}>
              open
            </Link>,
          ],
        ] as const)),
    ...(retry_of === null
      ? []
      : ([
          [
            'Retry of',
            <Link key="retry" to="/batches/$batchId" params={{ batchId: retry_of }}>
              open
            </Link>,
          ],
        ] as const)),
  ];
  return (
    <dl className="facts section">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Actions({ batch }: { readonly batch: Batch }) {
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const change = useMutation({
    mutationFn: (act: () => Promise<unknown>) => act(),
    onSettled: () => queries.invalidateQueries({ queryKey: ['batch', batch.id] }),
  });
  const retry = useMutation({
    mutationFn: () => nightshift.batches.retry(batch.id),
    onSuccess: ({ id }) => navigate({ to: '/batches/$batchId', params: { batchId: id } }),
  });
  const { max_cost_usd } = batch.limits;
  const may = (act: BatchAct): boolean => isAllowed(act, batch);
  return (
    <>
      {batch.apply === 'review' && <ReviewLink batchId={batch.id} />}
      {may('pause') && (
        <button
          type="button"
          className="button"
          onClick={() => change.mutate(() => carryOut('pause', batch))}
        >
          Pause
        </button>
      )}
      {may('resume') && (
        <button
          type="button"
          className="button"
          onClick={() => change.mutate(() => carryOut('resume', batch))}
        >
          Resume
        </button>
      )}
      {max_cost_usd !== null && batch.completed_at === null && (
        <Ask
          action="Change the cap"
          question="How much may this batch cost?"
          label="Dollars"
          hint="A batch that is paused at its cap goes on with a higher one."
          input={{ type: 'number', min: 0, step: 'any', required: true, defaultValue: Number(max_cost_usd) }}
          onAnswer={(dollars) =>
            change.mutate(() => nightshift.batches.changeCaps(batch.id, { max_cost_usd: Number(dollars) }))
          }
        />
      )}
      {may('retry') && (
        <button type="button" className="button" onClick={() => retry.mutate()} disabled={retry.isPending}>
          Retry {counted(failedRuns(batch), 'run')}
        </button>
      )}
      {may('cancel') && (
        <Confirm
          action="Cancel batch"
          question="Cancel this batch?"
          isBad
          onConfirm={() => change.mutate(() => carryOut('cancel', batch))}
        >
          Runs that have ended keep their results. Answers that the provider is working on are still paid and
          kept.
        </Confirm>
      )}
      {(change.error ?? retry.error) !== null && <ErrorNotice error={change.error ?? retry.error} />}
    </>
  );
}
