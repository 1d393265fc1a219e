import type { HeldChange } from '@nightshift/client';
import { useMutation, useQuery } from '@tanstack/react-query';
import { nightshift } from '../../api/client.ts';
import { count } from '../../parts/numbers.tsx';
import { ErrorNotice } from '../../parts/notices.tsx';
import { WordDiff } from '../../parts/word-diff.tsx';
import type { ReviewState } from './use-review.ts';

interface EditProps {
  readonly review: ReviewState;
  /** With its texts. */
  readonly change: HeldChange;
}

/** Edits the proposed text. The text stays until it is saved or thrown away, whatever happens to the change. */
export function ChangeEdit({ review, change }: EditProps) {
  const { batchId, drafts, setDraft, setEditing, settle, goOn } = review;
  const proposed = change.values?.proposed ?? '';
  // The edit knows the text that it began with: another one by now is a conflict, not something to overwrite unseen.
  const { text, from } = drafts[change.id] ?? { text: proposed, from: proposed };
  const { limit } = useBlockLimit(change);
  const save = useMutation({
    mutationFn: async () => {
      await nightshift.batches.editHeldChange(batchId, change.id, { value: text, expected: from });
      setDraft(change.id, null);
      setEditing(false);
      goOn();
      const { stale_because } = change;
      const onConflict = stale_because?.reason === 'edited' ? 'force' : undefined;
      await settle.settle({ key: change.id, change, count: 1 }, 'accepted', onConflict);
    },
    onError: () => settle.refresh(change).catch(() => undefined),
  });
  const length = [...text].length;
  const isTooLong = limit !== undefined && length > limit;
  const isSettled = change.state !== 'held';
  const isRaced = from !== proposed && !isSettled;
  return (
    <form
      className="review-edit"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isTooLong && !isSettled && !isRaced) save.mutate();
      }}
    >
      <label className="field">
        <span>Proposed text</span>
        <textarea
          className="input"
          autoFocus
          onFocus={({ target }) => target.setSelectionRange(target.value.length, target.value.length)}
          value={text}
          aria-invalid={isTooLong}
          onChange={({ target }) => setDraft(change.id, { text: target.value, from })}
          onKeyDown={({ key, ctrlKey, metaKey, currentTarget }) => {
            if (key === 'Escape') setEditing(false);
            if (key === 'Enter' && (ctrlKey || metaKey)) currentTarget.form?.requestSubmit();
          }}
        />
      </label>
      {save.error !== null && !isRaced && <ErrorNotice error={save.error} />}
      {isSettled && (
        <p className="tone-warn">The change was {change.state} meanwhile. Your text is kept here to copy.</p>
      )}
      {isRaced && (
        <Raced
          proposed={proposed}
          text={text}
          onKeep={() => {
            setDraft(change.id, { text, from: proposed });
            save.reset();
          }}
        />
      )}
      <div className="review-actions row">
        <button
          type="submit"
          className="button button-main"
          disabled={isTooLong || isSettled || isRaced || save.isPending}
        >
          {change.stale ? 'Save and overwrite' : 'Save and accept'}
        </button>
        <button
          type="button"
          className="button"
          onClick={() => {
            setDraft(change.id, null);
            setEditing(false);
          }}
        >
          Throw the edit away
        </button>
        <span className={`small ${isTooLong ? 'tone-bad' : 'muted'}`}>
          {count(length)}
          {limit === undefined ? '' : ` of ${count(limit)}`} characters
        </span>
      </div>
    </form>
  );
}

interface RacedProps {
  readonly proposed: string;
  readonly text: string;
  readonly onKeep: () => void;
}

/** Shows that the proposed text was edited elsewhere, and how it differs from the own edit. */
function Raced({ proposed, text, onKeep }: RacedProps) {
  return (
    <div className="notice notice-bad" role="alert">
      <p className="row">
        The proposed text was edited by another person meanwhile. Yours is kept; from theirs to yours:
        <button type="button" className="button" onClick={onKeep}>
          Keep mine
        </button>
      </p>
      <WordDiff before={proposed} after={text} />
    </div>
  );
}

/** Reads the limit of the block; undefined for a new block. Unit: characters. */
function useBlockLimit({ block_id }: HeldChange): { readonly limit: number | undefined } {
  const block = useQuery({
    queryKey: ['block', block_id],
    queryFn: () => nightshift.memory.retrieve(block_id ?? ''),
    enabled: block_id !== null,
  });
  return { limit: block.data?.limit };
}
