/** A submission without a response, as decisions see it. */
export interface UnknownSubmission {
  readonly request_count: number;
  /** Send time: the provider's where measured, else the database's. */
  readonly sent_at: Date;
  /** Complete searches so far without a match. */
  readonly searches: number;
}

/** A batch at the provider that no row names. */
export interface Candidate {
  readonly provider_id: string;
  readonly request_count: number;
  readonly created_at: Date;
}

/** Another submission that is not certain of its batch. */
export interface OpenSubmission {
  readonly request_count: number;
  readonly sent_at: Date;
  /** `sending`: its response may be on its way. `adopted`: it took a listed batch, and no line has proven it yet. */
  readonly stage: 'sending' | 'unknown' | 'adopted';
}

export interface ReconcilePolicy {
  /**
   * Uncertainty of a send time: the most probable distance of a submission's batch.
   * Unit: milliseconds.
   */
  readonly clock_skew_ms: number;
  /**
   * Search radius around the send, far wider than any measured error: a clock may jump or never be measured.
   * The window only saves work; the nonce alone proves ownership. Nothing is sent while the clocks are farther apart.
   * Unit: milliseconds.
   */
  readonly clock_margin_ms: number;
  /**
   * Time after the send in which a batch may have been created.
   * Unit: milliseconds.
   */
  readonly quarantine_ms: number;
  /**
   * Search interval.
   * Unit: milliseconds.
   */
  readonly search_interval_ms: number;
  /** Complete searches without a candidate before the submission counts as never accepted. */
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

/** The provider's times are whole seconds, so two of them may seem this much closer. */
const CLOCK_RESOLUTION_MS = 2_000;

/** A list of the provider's batches, as far as it was read. */
export interface SearchedList {
  readonly complete: boolean;
  /** The provider's time of the list; null where it is not comparable with the send time. */
  readonly now: Date | null;
}

/**
 * Decides after a list of the provider's batches. Candidates are unknown batches of its request count, made around the
 * send.
 * The nearest is adopted; its result lines must then carry the nonce. Without any in enough complete lists, the steps
 * are sent again under a new nonce.
 * The caller has waited for the quarantine by the database's clock. It must be over by the provider's clock too, so
 * that a clock jump withdraws no create still on its way.
 * Batches of one size look alike, so it may wait for `others`: for a submission being sent, which may own the
 * candidate, and before giving up, for a submission that may have adopted its batch.
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
    const mayBeOthers = others.some(
      (other) =>
        other.stage === 'sending' &&
        other.request_count === candidate.request_count &&
        apartMs(other, candidate, policy) <= policy.clock_skew_ms,
    );
    return mayBeOthers ? wait : { kind: 'adopt', candidate };
  }
  const mayBeAdopted = others.some(
    (other) => other.stage === 'adopted' && areTwins(submission, other, policy),
  );
  const mayBeOnItsWay =
    list.now !== null &&
    list.now.getTime() - submission.sent_at.getTime() < policy.quarantine_ms - CLOCK_RESOLUTION_MS;
  if (!list.complete || mayBeAdopted || mayBeOnItsWay) return wait;
  if (submission.searches + 1 < policy.searches_min) {
    return { kind: 'search_again', delay_ms: policy.search_interval_ms, counts: true };
  }
  return { kind: 'withdraw' };
}

/** Returns whether two submissions may mistake each other's batches: of equal size and sent at about the same time. */
export function areTwins(
  one: { readonly request_count: number; readonly sent_at: Date },
  other: { readonly request_count: number; readonly sent_at: Date },
  policy: ReconcilePolicy,
): boolean {
  const overlapMs = policy.quarantine_ms + 2 * policy.clock_margin_ms;
  const betweenMs = Math.abs(one.sent_at.getTime() - other.sent_at.getTime());
  return one.request_count === other.request_count && betweenMs <= overlapMs;
}

/** Returns the milliseconds between a batch and the creation window of a submission; 0 within. */
function apartMs(
  submission: { readonly sent_at: Date },
  batch: Candidate,
  { quarantine_ms }: ReconcilePolicy,
): number {
  const afterMs = batch.created_at.getTime() - submission.sent_at.getTime();
  return Math.max(-afterMs, afterMs - quarantine_ms, 0);
}

/** Returns whether a batch has the submission's size and was made around its send. */
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
