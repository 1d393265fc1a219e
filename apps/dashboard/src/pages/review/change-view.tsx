import type { HeldChange } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { counted } from '../../parts/numbers.tsx';
import { QueryPart } from '../../parts/query-part.tsx';
import { Time } from '../../parts/time.tsx';
import { WordDiff } from '../../parts/word-diff.tsx';
import { ChangeActions } from './change-actions.tsx';
import { ChangeEdit } from './change-edit.tsx';
import { STALE_REASONS } from './change.ts';
import type { Entry } from './entries.ts';
import { textsQuery } from './texts.ts';
import type { ReviewState } from './use-review.ts';

interface ChangeProps {
  readonly review: ReviewState;
  readonly entry: Entry;
}

/** Shows what a change would do to its block, and what to do with it. */
export function ChangeView({ review, entry }: ChangeProps) {
  const { change, count } = entry;
  const texts = useQuery(textsQuery(review.batchId, change));
  const isEditing = review.isEditing && (change.state === 'held' || change.id in review.drafts);
  return (
    <section className="review-change" aria-label="The change">
      <header className="row">
        <h2>
          <Link to="/memories/$agentId" params={{ agentId: change.agent_id }}>
            {change.agent_name}
          </Link>{' '}
          <span className="muted">{labelOf(change)}</span>
        </h2>
        {count > 1 && (
          <span className="small muted">
            one of {counted(count, 'equal change')} ·{' '}
            <Link
              to="/review/$batchId"
              params={{ batchId: review.batchId }}
              search={{ ...review.filters, state: change.state, change_group: change.change_group }}
            >
              look at each
            </Link>
          </span>
        )}
      </header>
      <div className="review-text">
        {change.stale_because !== null && <Staleness because={change.stale_because} />}
        <QueryPart of={texts}>
          {(data) =>
            isEditing ? (
              <ChangeEdit key={change.id} review={review} change={data} />
            ) : (
              <Views key={change.id} change={data} />
            )
          }
        </QueryPart>
      </div>
      {!isEditing && <ChangeActions review={review} entry={entry} values={texts.data?.values ?? null} />}
    </section>
  );
}

function labelOf({ label, label_before }: Pick<HeldChange, 'label' | 'label_before'>): string {
  return label_before === null || label_before === label ? label : `${label_before} → ${label}`;
}

type View = 'proposed' | 'meanwhile' | 'now';

const VIEWS = [
  ['proposed', 'Proposed'],
  ['meanwhile', 'Written meanwhile'],
  ['now', 'Against the present text'],
] as const satisfies readonly (readonly [View, string])[];

/** The proposed change; of a stale one also what was written meanwhile, and what an overwrite would do. */
function Views({ change }: { readonly change: HeldChange }) {
  const [view, setView] = useState<View>('proposed');
  const { worked_from, proposed, now } = change.values ?? { worked_from: null, proposed: null, now: null };
  const sides = {
    proposed: [worked_from, proposed],
    meanwhile: [worked_from, now],
    now: [now, proposed],
  } as const;
  const [before, after] = sides[change.stale ? view : 'proposed'];
  return (
    <>
      {change.stale && (
        <div className="review-views" role="group" aria-label="Texts to compare">
          {VIEWS.map(([name, title]) => (
            <button
              key={name}
              type="button"
              className="chip"
              aria-pressed={view === name}
              onClick={() => setView(name)}
            >
              {title}
            </button>
          ))}
        </div>
      )}
      {change.description !== change.description_before && change.kind === 'revised' && (
        <p className="small">
          Description: <del className="diff-removed">{change.description_before}</del>{' '}
          <ins className="diff-added">{change.description}</ins>
        </p>
      )}
      <WordDiff before={before ?? ''} after={after ?? ''} />
      {change.kind === 'detached' && <p className="small muted">The agent gives up this block.</p>}
    </>
  );
}

/** Says why a change is stale, and who wrote meanwhile. */
function Staleness({ because }: { readonly because: NonNullable<HeldChange['stale_because']> }) {
  const { reason, revision, written_by, run_id, written_at } = because;
  return (
    <p className="review-stale" role="note">
      <span className="tone-warn" aria-hidden>
        ◆
      </span>{' '}
      {STALE_REASONS[reason]}{' '}
      {run_id === null ? (
        written_by === 'api' && <>A person or a program wrote revision {revision},</>
      ) : (
        <>
          <Link to="/runs/$runId" params={{ runId: run_id }}>
            Another run
          </Link>{' '}
          wrote revision {revision},
        </>
      )}{' '}
      <Time at={written_at} />.
    </p>
  );
}
