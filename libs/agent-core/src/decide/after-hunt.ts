import { mayBeOf, type Candidate, type OpenSubmission, type ReconcilePolicy } from './after-search.ts';

/** A submission that was in doubt and has found its batch, or was sent anew. */
export interface SettledDoubt {
  readonly nonce: string;
  readonly request_count: number;
  readonly submit_started_at: Date;
}

/**
 * Which batches of the provider nobody knows belong to a submission that was in doubt, and are therefore second ones:
 * of its request count, made in its time window. One submission may have several; each batch is claimed by one.
 * A batch that may still turn out to be the first one of a submission in `open` is left alone.
 */
export function decideOrphans<Doubt extends SettledDoubt, Batch extends Candidate>(
  doubts: readonly Doubt[],
  unknownBatches: readonly Batch[],
  policy: ReconcilePolicy,
  open: readonly OpenSubmission[] = [],
): readonly { readonly doubt: Doubt; readonly batch: Batch }[] {
  return unknownBatches.flatMap((batch) => {
    if (open.some((submission) => mayBeOf(submission, batch, policy))) return [];
    const doubt = doubts.find((settled) => mayBeOf(settled, batch, policy));
    return doubt === undefined ? [] : [{ doubt, batch }];
  });
}
