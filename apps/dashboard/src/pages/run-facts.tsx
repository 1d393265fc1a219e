import type { Run } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useBatchName } from '../api/batch-names.ts';
import { nightshift } from '../api/client.ts';
import { LongText } from '../parts/long-text.tsx';
import { count, usd } from '../parts/numbers.tsx';
import { Time } from '../parts/time.tsx';
import { ADVICE } from './run-advice.ts';

/** Shows the agent, the batch and the counts of a run. */
export function RunFacts({ run }: { readonly run: Run }) {
  const { agent_id, batch_id, usage } = run;
  const agent = useQuery({
    queryKey: ['agent', agent_id],
    queryFn: () => nightshift.agents.retrieve(agent_id),
  });
  const batch = useQuery({
    queryKey: ['batch', batch_id],
    queryFn: () => nightshift.batches.retrieve(batch_id),
  });
  const batchName = useBatchName(batch.data);
  const facts: readonly (readonly [string, ReactNode])[] = [
    [
      'Agent',
      <Link key="agent" to="/memories/$agentId" params={{ agentId: agent_id }}>
        {agent.data?.name ?? agent_id}
      </Link>,
    ],
    [
      'Batch',
      <Link key="batch" to="/batches/$batchId" params={{ batchId: batch_id }}>
        {batchName || batch_id}
      </Link>,
    ],
    ['Cost', usd(usage.cost_usd)],
    ['Steps', `${count(usage.steps)} of ${count(run.limits.max_steps)}`],
    ['Tool calls', count(usage.tool_calls)],
    ['Tokens in, out', `${count(tokensIn(run))} · ${count(usage.output_tokens)}`],
    ['Created', <Time key="created" at={run.created_at} />],
  ];
  return (
    <dl className="facts run-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="cut">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const tokensIn = ({ usage }: Run): number =>
  usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;

/** Says what is wrong with a run, or what it waits for, and what to do. */
export function RunTrouble({ run }: { readonly run: Run }) {
  const { error, ended_reason, last_error, next_attempt_at, waits_for } = run;
  const advice = ended_reason === null ? undefined : ADVICE[ended_reason];
  if (error !== null || advice !== undefined)
    return (
      <div className={error === null ? 'notice' : 'notice notice-bad'}>
        {error !== null && <LongText text={error.message} fileName={`${run.id}-error.txt`} />}
        {advice !== undefined && <p className={error === null ? '' : 'muted'}>{advice}</p>}
      </div>
    );
  if (last_error !== null)
    return (
      <div className="notice">
        <p className="tone-warn">
          Attempt {run.attempt} failed and is tried again
          {next_attempt_at !== null && (
            <>
              , next <Time at={next_attempt_at} />
            </>
          )}
          .
        </p>
        <LongText text={`${last_error.type}: ${last_error.message}`} fileName={`${run.id}-error.txt`} />
      </div>
    );
  return waits_for === null ? null : <Waiting waitsFor={waits_for} />;
}

function Waiting({ waitsFor }: { readonly waitsFor: NonNullable<Run['waits_for']> }) {
  return (
    <p className="notice">
      {waitsFor.type === 'run' ? (
        <>
          It waits for{' '}
          <Link to="/runs/$runId" params={{ runId: waitsFor.run_id }}>
            the run that holds its conversation
          </Link>
          .
        </>
      ) : (
        <>
          It waits for the results of {waitsFor.tool_calls.map(({ tool_name }) => tool_name).join(', ')}. Send
          them by <code>POST /v1/runs/…/tool-results</code>.
        </>
      )}
    </p>
  );
}
