/** What deciding needs of a batch that was sent and never answered for. */
export interface UnknownSubmission {
  readonly request_count: number;
  /** When it was sent: in the provider's time where that was measured, else in the database's. */
  readonly sent_at: Date;
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
  readonly sent_at: Date;
  /** `sending`: its answer may be on its way. `adopted`: it took a batch from a list, and no line has proven it yet. */
  readonly stage: 'sending' | 'unknown' | 'adopted';
}

export interface ReconcilePolicy {
  /** Milliseconds that a send time may be off: where a batch of a submission most probably is. */
  readonly clock_skew_ms: number;
  /**
   * Milliseconds that a batch is looked for around its send. Far wider than any measured error, as a clock may jump after it
   * was measured, or never be measured: the window saves work, and the nonce alone proves whose a batch is. Nothing is sent
   * while the clocks are farther apart.
   */
  readonly clock_margin_ms: number;
  /** Milliseconds after the send during which a created batch may have got its time stamp. */
  readonly quarantine_ms: number;
  /** Milliseconds between two searches. */
  readonly search_interval_ms: number;
  /** Complete searches without a candidate after which the submission counts as never accepted. */
  readonly searches_min: number;
}

export const RECONCILE_POLICY_DEFAULT: ReconcilePolicy = {
  clock_skew_ms: 120_000,
  clock_margin_ms: 1_800_000,
  quarantine_ms: 150_000,
  search_interval_ms: 60_000,
  searches_min: 2,
};

export type SearchDecision =
  | { readonly kind: 'adopt'; readonly candidate: Candidate }
  | { readonly kind: 'search_again'; readonly delay_ms: number; readonly counts: boolean }
  | { readonly kind: 'withdraw' };

/** The provider tells its time in whole seconds: by so much two of its times may seem closer than they are. */
const CLOCK_RESOLUTION_MS = 2_000;

/** A list of the provider's batches, as far as it was read. */
export interface SearchedList {
  readonly complete: boolean;
  /** The provider's time when it was read; null where that cannot be compared with the time of the send. */
  readonly now: Date | null;
}

/**
 * What to do after a list of the provider's batches. A candidate is one that we do not know, of our request count,
 * made around our send; the nearest is adopted (its result lines must then carry our nonce). None in enough complete
 * lists: it was never accepted, and its steps go out again under a new nonce.
 *
 * The caller has waited for the quarantine by the database's clock. It must be over by the provider's clock as well, so that a
 * jump of either clock withdraws nothing that is still on its way.
 *
 * Batches of one size look alike, so `others` may make it wait: for one that is being sent, whose batch the candidate may
 * be, and, before it gives up, for one that may have adopted the batch that is looked for.
 */
export function decideAfterSearch(
  submission: UnknownSubmission,
  unknownBatches: readonly Candidate[],
  list: SearchedList,
  policy: ReconcilePolicy,
  others: readonly OpenSubmission[] = [],
): SearchDecision {
  const [candidate] = unknownBatches
    .filter((batch) => mayBeOf(submission, batch, policy))
    .sort(
      (a, b) =>
        apartMs(submission, a, policy) - apartMs(submission, b, policy) ||
        a.created_at.getTime() - b.created_at.getTime() ||
        (a.provider_id < b.provider_id ? -1 : 1),
    );
  const wait: SearchDecision = { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: false };
  if (candidate !== undefined) {
    const isPerhapsTheirs = others.some(
      (other) =>
        other.stage === 'sending' &&
        other.request_count === candidate.request_count &&
        apartMs(other, candidate, policy) <= policy.clock_skew_ms,
    );
    return isPerhapsTheirs ? wait : { kind: 'adopt', candidate };
  }
  const mayHaveTakenOurs = others.some(
    (other) => other.stage === 'adopted' && areTwins(submission, other, policy),
  );
  const mayBeOnItsWay =
    list.now !== null &&
    list.now.getTime() - submission.sent_at.getTime() < policy.quarantine_ms - CLOCK_RESOLUTION_MS;
  if (!list.complete || mayHaveTakenOurs || mayBeOnItsWay) return wait;
  if (submission.searches + 1 < policy.searches_min) {
    return { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: true };
  }
  return { kind: 'withdraw' };
}

/** True for two submissions that may each take the other's batch for its own: of one size, and sent at about the same time. */
export function areTwins(
  one: { readonly request_count: number; readonly sent_at: Date },
  other: { readonly request_count: number; readonly sent_at: Date },
  policy: ReconcilePolicy,
): boolean {
  const overlapMs = policy.quarantine_ms + 2 * policy.clock_margin_ms;
  const betweenMs = Math.abs(one.sent_at.getTime() - other.sent_at.getTime());
  return one.request_count === other.request_count && betweenMs <= overlapMs;
}

/** Milliseconds between a batch and the time in which a create of the submission makes one; 0 within. */
function apartMs(
  submission: { readonly sent_at: Date },
  batch: Candidate,
  { quarantine_ms }: ReconcilePolicy,
): number {
  const afterMs = batch.created_at.getTime() - submission.sent_at.getTime();
  return Math.max(-afterMs, afterMs - quarantine_ms, 0);
}

/** True for a batch of the submission's size, made around its send. */
function mayBeOf(
  submission: { readonly request_count: number; readonly sent_at: Date },
  batch: Candidate,
  policy: ReconcilePolicy,
): boolean {
  return (
    batch.request_count === submission.request_count &&
    apartMs(submission, batch, policy) <= policy.clock_margin_ms
  );
}
