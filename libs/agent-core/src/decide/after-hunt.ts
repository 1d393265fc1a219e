import type { Candidate, OpenSubmission, ReconcilePolicy } from './after-search.ts';

/** A submission that was in doubt and has found its batch, or was sent anew. */
export interface SettledDoubt {
  readonly nonce: string;
  readonly request_count: number;
  /** When it was sent: in the provider's time where that was measured, else in the database's. */
  readonly sent_at: Date;
}

/** A batch that may be a second one of a submission. */
export interface Suspect<Doubt, Batch> {
  readonly doubt: Doubt;
  readonly batch: Batch;
  /** A submission of its size is in doubt now, and may own it: nothing but its nonce tells whose it is. */
  readonly may_be_open: boolean;
}

/**
 * Returns the unbooked provider batches that may be duplicates of a doubted submission: of its request count, and not made
 * before its send. There is no last moment: a proxy may forward a create hours after it has given up. Each batch is suspected once.
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
