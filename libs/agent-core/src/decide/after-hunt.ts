import type { Candidate, OpenSubmission, ReconcilePolicy } from './after-search.ts';

/** A doubted submission that has found its batch or was sent again. */
export interface SettledDoubt {
  readonly nonce: string;
  readonly request_count: number;
  /** Send time: the provider's where measured, else the database's. */
  readonly sent_at: Date;
}

/** A possible duplicate batch of a submission. */
export interface Suspect<Doubt, Batch> {
  readonly doubt: Doubt;
  readonly batch: Batch;
  /** A submission of its size is in doubt now and may own it: only the nonce tells. */
  readonly may_be_open: boolean;
}

/**
 * Returns the unbooked provider batches that may be duplicates of a doubted submission.
 * They have its request count and were made after its send, however late: a proxy may forward a create hours after it
 * has given up. Each batch is suspected once.
 */
export function decideOrphans<Doubt extends SettledDoubt, Batch extends Candidate>(
  doubts: readonly Doubt[],
  unknownBatches: readonly Batch[],
  policy: ReconcilePolicy,
  open: readonly OpenSubmission[] = [],
): readonly Suspect<Doubt, Batch>[] {
  return unknownBatches.flatMap((batch) => {
    const doubt = doubts.find(
      (settled) =>
        settled.request_count === batch.request_count &&
        batch.created_at.getTime() >= settled.sent_at.getTime() - policy.clock_margin_ms,
    );
    if (doubt === undefined) return [];
    const may_be_open = open.some((submission) => submission.request_count === batch.request_count);
    return [{ doubt, batch, may_be_open }];
  });
}
