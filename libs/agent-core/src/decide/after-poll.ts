import { nextLookMs, type LookPolicy } from './next-look.ts';

/** The provider's report on a provider batch, if any. */
export interface RemoteFacts {
  readonly processing_status: 'in_progress' | 'canceling' | 'ended';
  readonly has_results: boolean;
}

export interface PollPolicy {
  /**
   * Poll interval in the first hour of a batch.
   * Unit: milliseconds.
   */
  readonly poll_interval_ms: number;
  /**
   * Poll interval after that.
   * Unit: milliseconds.
   */
  readonly poll_interval_ms_max: number;
  /**
   * Grace in which "no such batch" counts as lag; the provider has answered so for minutes.
   * Unit: milliseconds.
   */
  readonly missing_grace_ms: number;
  /** Looks follow the turnarounds seen. Default: the two intervals. */
  readonly looks?: LookPolicy;
}

export const POLL_POLICY_DEFAULT: PollPolicy = {
  poll_interval_ms: 60_000,
  poll_interval_ms_max: 300_000,
  missing_grace_ms: 900_000,
};

export type PollDecision =
  | { readonly kind: 'ended' }
  | { readonly kind: 'wait'; readonly delay_ms: number; readonly missing: boolean }
  | { readonly kind: 'lost' };

/** Duration for which the provider has not known a batch. */
export interface MissingFacts {
  readonly missing_since: Date | null;
  /** Milliseconds since the send by the provider's clock; null if unknown. */
  readonly sent_ms_ago: number | null;
}

/**
 * Returns whether a batch has been missing for the grace, also by the provider's clock since the send.
 * A jump of the database's clock must not give up a batch that the provider does not show yet.
 */
export function isMissingForGood(
  { missing_since, sent_ms_ago }: MissingFacts,
  now: Date,
  { missing_grace_ms }: PollPolicy,
): boolean {
  if (missing_since === null || now.getTime() - missing_since.getTime() < missing_grace_ms) return false;
  return sent_ms_ago === null || sent_ms_ago >= missing_grace_ms;
}

/**
 * Decides after a poll of a submitted batch.
 * `remote` is null when the provider does not know the id, which counts only after the grace.
 * `turnarounds`: of ended batches like this, in milliseconds.
 */
export function decideAfterPoll(
  row: MissingFacts & { readonly submitted_at: Date },
  remote: RemoteFacts | null,
  now: Date,
  policy: PollPolicy,
  turnarounds: readonly number[] = [],
): PollDecision {
  if (remote === null) {
    if (isMissingForGood(row, now, policy)) return { kind: 'lost' };
    return { kind: 'wait', delay_ms: policy.poll_interval_ms, missing: true };
  }
  if (remote.processing_status === 'ended') return { kind: 'ended' };
  const ageMs = now.getTime() - row.submitted_at.getTime();
  return { kind: 'wait', delay_ms: nextPollMs(ageMs, policy, turnarounds), missing: false };
}

/** Returns the delay until the next poll of a submitted batch of this age. Unit: milliseconds. */
export function nextPollMs(ageMs: number, policy: PollPolicy, turnarounds: readonly number[]): number {
  if (policy.looks !== undefined) return nextLookMs(ageMs, turnarounds, policy.looks);
  return ageMs > 3_600_000 ? policy.poll_interval_ms_max : policy.poll_interval_ms;
}
