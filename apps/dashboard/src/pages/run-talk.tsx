import type { Run } from '@nightshift/client';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { indentJson } from '../parts/json-text.ts';
import { LongText } from '../parts/long-text.tsx';
import { Section } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { Conversation } from './run-conversation.tsx';
import { intervalsOf } from './run-intervals.ts';
import { useSteps } from './run-steps.ts';
import { Waterfall } from './run-waterfall.tsx';

/** Shows the conversation of a run, and beside it the time that its steps and waits took. */
export function RunTalk({ run }: { readonly run: Run }) {
  const { data: steps = [] } = useSteps(run);
  const timeline = useQuery({
    queryKey: ['run', run.id, 'timeline', run.state, run.usage.steps, run.attempts],
    queryFn: () => nightshift.runs.timeline(run.id),
    placeholderData: keepPreviousData,
  });
  return (
    <div className="run-columns">
      <div>
        <Conversation run={run} steps={steps} />
        {run.result !== null && (
          <Section title="Result">
            <LongText
              text={indentJson(JSON.stringify(run.result))}
              fileName={`${run.id}-result.json`}
              isCode
            />
          </Section>
        )}
      </div>
      <aside className="run-times">
        <h2>Steps and waits</h2>
        <QueryPart of={timeline}>
          {(data) => <Waterfall intervals={intervalsOf(data, steps)} now={Date.now()} />}
        </QueryPart>
      </aside>
    </div>
  );
}
