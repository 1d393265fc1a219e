import type { Run } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { nightshift } from '../api/client.ts';
import { LongText } from '../parts/long-text.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPage } from '../parts/query-page.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { RunActions } from './run-actions.tsx';
import { RunChanges } from './run-changes.tsx';
import { RunFacts, RunTrouble } from './run-facts.tsx';
import { RunRequest } from './run-request.tsx';
import { RUN_TABS, type RunTab } from './run-tabs.ts';
import { RunTalk } from './run-talk.tsx';
import { SameAs } from './same-as.tsx';
import '../style/run.css';

const route = getRouteApi('/runs/$runId');

/** Shows a run: what was said, when it waited, what it changed. */
export function RunPage() {
  const { runId } = route.useParams();
  const run = useQuery({
    queryKey: ['run', runId],
    queryFn: () => nightshift.runs.retrieve(runId),
    refetchInterval: ({ state }) => (state.data?.completed_at === null ? 2_000 : false),
  });
  return (
    <QueryPage
      of={run}
      title="Run"
      gone="There is no such run. It was deleted with its batch, or its time of keeping is over."
    >
      {(data) => <Shown run={data} />}
    </QueryPage>
  );
}

function Shown({ run }: { readonly run: Run }) {
  const { tab = 'conversation', step } = route.useSearch();
  return (
    <Page
      title={run.custom_id ?? `Run ${run.ordinal + 1}`}
      aside={
        <>
          <StateMark state={run.state} />
          {run.ended_reason !== null && run.ended_reason !== run.state && (
            <span className="muted">{run.ended_reason.replaceAll('_', ' ')}</span>
          )}
        </>
      }
      actions={<RunActions run={run} />}
    >
      <RunTrouble run={run} />
      <div className="section">
        <RunFacts run={run} />
      </div>
      <nav className="tabs section" aria-label="Views of the run">
        {RUN_TABS.map(({ tab: to, name }) => (
          <Link
            key={to}
            to="/runs/$runId"
            params={{ runId: run.id }}
            search={to === 'conversation' ? {} : { tab: to }}
            activeOptions={{ exact: to === 'conversation', includeSearch: true }}
            className="tab"
            replace
          >
            {name}
          </Link>
        ))}
      </nav>
      <View run={run} tab={tab} step={step} />
      {tab !== 'request' && <SameAs command={`npx nightshift logs ${run.id}`} path={`/v1/runs/${run.id}`} />}
    </Page>
  );
}

interface ViewProps {
  readonly run: Run;
  readonly tab: RunTab;
  readonly step: string | undefined;
}

function View({ run, tab, step }: ViewProps) {
  if (tab === 'request') return <RunRequest run={run} stepId={step} />;
  if (tab === 'changes') return <RunChanges run={run} />;
  if (tab === 'json')
    return <LongText text={JSON.stringify(run, null, 2)} fileName={`${run.id}.json`} isCode />;
  return <RunTalk run={run} />;
}
