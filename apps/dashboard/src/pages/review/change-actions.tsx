import type { HeldChange } from '@nightshift/client';
import { Link } from '@tanstack/react-router';
import { count as written } from '../../parts/numbers.tsx';
import { StateMark } from '../../parts/state-mark.tsx';
import { Time } from '../../parts/time.tsx';
import type { Entry } from './entries.ts';
import { revertText } from './revert.ts';
import type { ReviewState } from './use-review.ts';

interface ActionsProps {
  readonly review: ReviewState;
  readonly entry: Entry;
  /** Null until they are read. */
  readonly values: HeldChange['values'];
}

/** Says what to do with a change, or what became of it. */
export function ChangeActions({ review, entry, values }: ActionsProps) {
  const { state, settled_at } = entry.change;
  return (
    <footer className="review-actions row">
      {state === 'held' && <Decisions review={review} entry={entry} />}
      {state === 'accepted' && <Accepted review={review} entry={entry} values={values} />}
      {state === 'rejected' && (
        <>
          <StateMark state="rejected" />
          <span className="small muted">
            {settled_at !== null && <Time at={settled_at} />} The block keeps its text.
          </span>
        </>
      )}
    </footer>
  );
}

function Decisions({ review, entry }: Omit<ActionsProps, 'values'>) {
  const { change, count } = entry;
  const { decide, setEditing } = review;
  const all = count === 1 ? '' : ` all ${written(count)}`;
  const isText = change.kind === 'revised' || change.kind === 'created';
  return (
    <>
      {!change.stale && (
        <button type="button" className="button button-main" onClick={() => decide('accepted')}>
          Accept{all} <kbd>a</kbd>
        </button>
      )}
      {change.stale_because?.reason === 'edited' && (
        <button type="button" className="button button-main" onClick={() => decide('accepted', 'rebase')}>
          Merge with the present text
        </button>
      )}
      {change.stale && change.stale_because?.reason === 'edited' && (
        <button type="button" className="button" onClick={() => decide('accepted', 'force')}>
          Overwrite it
        </button>
      )}
      <button type="button" className="button button-bad" onClick={() => decide('rejected')}>
        Reject{all} <kbd>r</kbd>
      </button>
      {isText && count === 1 && (
        <button type="button" className="button" onClick={() => setEditing(true)}>
          {change.id in review.drafts ? 'Go on editing' : 'Edit'} <kbd>e</kbd>
        </button>
      )}
    </>
  );
}

function Accepted({ review, entry, values }: ActionsProps) {
  const { change, count } = entry;
  const { settle } = review;
  const isBack = settle.reverted.has(change.id) || (values?.now != null && values.now === values.worked_from);
  const isOther = values?.now != null && values.now !== values.proposed && !isBack;
  if (isBack)
    return (
      <>
        <StateMark state="cancelled" label="reverted" />
        <span className="small muted">The text before the change is in force.</span>
      </>
    );
  return (
    <>
      <StateMark
        state="accepted"
        label={count === 1 ? 'accepted, in force' : `${written(count)} accepted, in force`}
      />
      {count === 1 && change.kind !== 'dropped' && (
        <button
          type="button"
          className="button"
          title={revertText(change)}
          onClick={() => void settle.revert(change)}
        >
          Revert this
        </button>
      )}
      <span className="small muted">
        {count > 1
          ? '“Look at each” shows them with “Revert this”. '
          : isOther
            ? 'The text in force is another: it was merged, or written since. '
            : `${revertText(change)} `}
        {change.block_id !== null && (
          <Link to="/blocks/$blockId" params={{ blockId: change.block_id }}>
            Revisions
          </Link>
        )}
      </span>
    </>
  );
}
