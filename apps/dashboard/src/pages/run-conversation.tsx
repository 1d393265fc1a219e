import type { Run, Step } from '@nightshift/client';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { duration } from '../parts/duration.ts';
import { usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { entriesOf, type Entry } from './run-entries.ts';
import { Turn } from './run-turn.tsx';
import { readMessages } from './run-messages.ts';

interface ConversationProps {
  readonly run: Run;
  readonly steps: readonly Step[];
}

/** Shows what was said in a run: texts, thoughts, and tool calls beside their results. */
export function Conversation({ run, steps }: ConversationProps) {
  const messages = useInfiniteQuery({
    queryKey: ['run', run.id, 'messages', run.state, run.usage.steps],
    queryFn: ({ pageParam }) => readMessages(run.id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next,
    placeholderData: keepPreviousData,
  });
  return (
    <QueryPart of={messages}>
      {({ pages }) => {
        const entries = entriesOf(pages.flatMap(({ items }) => items));
        if (entries.length === 0) return <Empty>{EMPTY[run.state] ?? 'Nothing was said yet.'}</Empty>;
        return (
          <>
            <Turns entries={entries} steps={steps} isOpen={run.ended_reason === null} />
            {messages.hasNextPage && (
              <p className="more">
                <button
                  type="button"
                  className="button"
                  disabled={messages.isFetchingNextPage}
                  onClick={() => void messages.fetchNextPage()}
                >
                  Show later messages
                </button>
              </p>
            )}
          </>
        );
      }}
    </QueryPart>
  );
}

const EMPTY: Readonly<Partial<Record<Run['state'], string>>> = {
  queued: 'The run waits for its conversation; its text is added when its turn comes.',
  in_flight: 'The first answer is awaited from the provider.',
  cancelled: 'The run was cancelled before anything was said.',
};

interface TurnsProps {
  readonly entries: readonly Entry[];
  readonly steps: readonly Step[];
  readonly isOpen: boolean;
}

function Turns({ entries, steps, isOpen }: TurnsProps) {
  const byId = new Map(steps.map((step) => [step.id, step]));
  return (
    <ol className="turns" aria-label="Conversation">
      {entries.map((entry, place) => {
        const { stepId } = entry;
        const step = stepId === null || stepId === entries[place - 1]?.stepId ? undefined : byId.get(stepId);
        return (
          <li key={entry.key} className="turn">
            {step !== undefined && <StepHead step={step} />}
            <Turn entry={entry} isOpen={isOpen} />
          </li>
        );
      })}
    </ol>
  );
}

function StepHead({
  step: { id, run_id, number, cost_usd, created_at, completed_at, is_summary },
}: {
  readonly step: Step;
}) {
  return (
    <p className="turn-step small muted" id={`step-${number}`}>
      {is_summary ? 'Summary' : `Step ${number}`}
      {completed_at !== null && ` · ${duration(Date.parse(completed_at) - Date.parse(created_at))}`} ·{' '}
      {usd(cost_usd)}{' '}
      <Link to="/runs/$runId" params={{ runId: run_id }} search={{ tab: 'request', step: id }}>
        What the model saw
      </Link>
    </p>
  );
}
