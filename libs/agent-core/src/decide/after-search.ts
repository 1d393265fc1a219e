/** What deciding needs of a batch that was sent and never answered for. */
export interface UnknownSubmission {
  readonly request_count: number;
  readonly submit_started_at: Date;
  /** Complete lists so far in which it was not found. */
  readonly searches: number;
}

/** A batch of the provider that no row of ours names. */
export interface Candidate {
  readonly provider_id: string;
  readonly request_count: number;
  readonly created_at: Date;
}

/** Another submission of which it is not certain which batch is its own. */
export interface OpenSubmission {
  readonly request_count: number;
  readonly submit_started_at: Date;
  /** `sending`: its answer may be on its way. `adopted`: it took a batch from a list, and no line has proven it yet. */
  readonly stage: 'sending' | 'unknown' | 'adopted';
}

export interface ReconcilePolicy {
  /** Milliseconds that the provider's clock may be off from the database's. */
  readonly clock_skew_ms: number;
  /** Milliseconds after the send during which a created batch may have got its time stamp. */
  readonly quarantine_ms: number;
  /** Milliseconds between two searches. */
  readonly search_interval_ms: number;
  /** Complete searches without a candidate after which the submission counts as never accepted. */
  readonly searches_min: number;
}

export const RECONCILE_POLICY_DEFAULT: ReconcilePolicy = {
  clock_skew_ms: 120_000,
  quarantine_ms: 150_000,
  search_interval_ms: 60_000,
  searches_min: 2,
};

export type SearchDecision =
  | { readonly kind: 'adopt'; readonly candidate: Candidate }
  | { readonly kind: 'search_again'; readonly delay_ms: number; readonly counts: boolean }
  | { readonly kind: 'withdraw' };

/**
 * What to do after a list of the provider's batches. A candidate is one that we do not know, of our request count,
 * made in our time window; the oldest is adopted (its result lines must then carry our nonce). None in enough complete
 * lists: it was never accepted, and its steps go out again under a new nonce.
 *
 * Batches of one size look alike, so `others` may make it wait: for one that is being sent, whose batch the candidate may
 * be, and, before it gives up, for one that may have adopted the batch that is looked for.
 */
export function decideAfterSearch(
  submission: UnknownSubmission,
  unknownBatches: readonly Candidate[],
  listComplete: boolean,
  policy: ReconcilePolicy,
  others: readonly OpenSubmission[] = [],
): SearchDecision {
  const [candidate] = unknownBatches
    .filter((batch) => mayBeOf(submission, batch, policy))
    .sort(
      (a, b) => a.created_at.getTime() - b.created_at.getTime() || (a.provider_id < b.provider_id ? -1 : 1),
    );
  const wait: SearchDecision = { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: false };
  if (candidate !== undefined) {
    const isPerhapsTheirs = others.some(
      (other) => other.stage === 'sending' && mayBeOf(other, candidate, policy),
    );
    return isPerhapsTheirs ? wait : { kind: 'adopt', candidate };
  }
  const mayHaveTakenOurs = others.some(
    (other) => other.stage === 'adopted' && areTwins(submission, other, policy),
  );
  if (!listComplete || mayHaveTakenOurs) return wait;
  if (submission.searches + 1 < policy.searches_min) {
    return { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: true };
  }
  return { kind: 'withdraw' };
}

/** True for two submissions that may each take the other's batch for its own: of one size, and sent at about the same time. */
export function areTwins(
  one: { readonly request_count: number; readonly submit_started_at: Date },
  other: { readonly request_count: number; readonly submit_started_at: Date },
  policy: ReconcilePolicy,
): boolean {
  const overlapMs = policy.quarantine_ms + 2 * policy.clock_skew_ms;
  const apartMs = Math.abs(one.submit_started_at.getTime() - other.submit_started_at.getTime());
  return one.request_count === other.request_count && apartMs <= overlapMs;
}

/** True for a batch of the submission's size, made in its time window. */
export function mayBeOf(
  submission: { readonly request_count: number; readonly submit_started_at: Date },
  batch: Candidate,
  policy: ReconcilePolicy,
): boolean {
  const sentAt = submission.submit_started_at.getTime();
  const createdAt = batch.created_at.getTime();
  return (
    batch.request_count === submission.request_count &&
    createdAt >= sentAt - policy.clock_skew_ms &&
    createdAt <= sentAt + policy.quarantine_ms + policy.clock_skew_ms
  );
}
