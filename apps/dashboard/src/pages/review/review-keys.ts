import { useKeys } from '../../parts/keys.ts';
import type { ReviewState } from './use-review.ts';

/** Binds the keys of the page. */
export function useReviewKeys(review: ReviewState): void {
  const { move, decide, setEditing, goBack, selected, settle, isEditing } = review;
  const back = (): void => {
    const change = selected?.change;
    const isRevertible =
      change?.state === 'accepted' && !settle.reverted.has(change.id) && selected?.count === 1;
    if (isRevertible) void settle.revert(change);
    else goBack();
  };
  useKeys({
    j: { what: 'next change', act: () => move(1) },
    k: { what: 'change before', act: () => move(-1) },
    a: { what: 'accept the change', act: () => decide('accepted') },
    r: { what: 'reject the change', act: () => decide('rejected') },
    e: { what: 'edit the proposed text', act: () => setEditing(selected?.change.state === 'held') },
    u: { what: 'back to the change settled last; there, revert it', act: back },
    Escape: { what: 'leave the edit; its text stays', act: () => isEditing && setEditing(false) },
  });
}
