import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { count } from '../../parts/numbers.tsx';
import { StateMark } from '../../parts/state-mark.tsx';
import { Time } from '../../parts/time.tsx';
import type { Change } from './change.ts';

const KINDS = {
  revised: 'Text revised',
  created: 'New block',
  detached: 'Block given up',
  dropped: 'Created and dropped again',
} as const satisfies Readonly<Record<Change['kind'], string>>;

/** Shows the facts of a change: its run, its revisions, its size. */
export function ChangeFacts({ change }: { readonly change: Change }) {
  const { run_id, run_state, stop_reason, block_id, from_revision, to_revision, custom_id, edited_at } =
    change;
  const facts: readonly (readonly [string, ReactNode])[] = [
    ['Run', <StateMark key="run" state={run_state} />],
    ['Ended by', stop_reason?.replaceAll('_', ' ') ?? '–'],
    ['Request', custom_id ?? '–'],
    ['Kind', KINDS[change.kind]],
    ['Revision', from_revision === null ? 'new' : `${count(from_revision)} → ${count(to_revision)}`],
    ['Characters', `${count(change.chars_before)} → ${count(change.chars_after)}`],
    ['Lines', `+${count(change.lines_added)} −${count(change.lines_removed)}`],
    ['Written', <Time key="written" at={change.created_at} />],
    ...(edited_at === null ? [] : [['Edited', <Time key="edited" at={edited_at} />] as const]),
  ];
  return (
    <aside className="review-facts" aria-label="Facts">
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <p className="row small">
        <Link to="/runs/$runId" params={{ runId: run_id }}>
          Open the run
        </Link>
        {block_id !== null && (
          <Link to="/blocks/$blockId" params={{ blockId: block_id }}>
            Open the block
          </Link>
        )}
      </p>
    </aside>
  );
}
