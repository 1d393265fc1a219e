/** What the provider said of a provider batch, if anything. */
export interface RemoteFacts {
  readonly processing_status: 'in_progress' | 'canceling' | 'ended';
  readonly has_results: boolean;
}

export interface PollPolicy {
  /** Milliseconds between two looks at a batch in its first hour. */
  readonly poll_interval_ms: number;
  /** Milliseconds between two looks after that. */
  readonly poll_interval_ms_max: number;
  /** Milliseconds for which "no such batch" is believed to be lag. The provider has answered so for minutes. */
  readonly missing_grace_ms: number;
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

/** How long the provider has not known a batch. */
export interface MissingFacts {
  readonly missing_since: Date | null;
  /** Milliseconds since the send by the provider's clock; null where that is not known. */
  readonly sent_ms_ago: number | null;
}

/**
 * True once a batch has been missing for the grace. The grace must be over since the send by the provider's clock as well, so that a
 * jump of the database's clock gives up no batch that the provider does not show yet.
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
 * What to do after a look at a submitted batch. `remote` is null when the provider does not know the id, which is
 * believed only after the grace.
 */
export function decideAfterPoll(
  row: MissingFacts & { readonly submitted_at: Date },
  remote: RemoteFacts | null,
  now: Date,
  policy: PollPolicy,
): PollDecision {
  if (remote === null) {
    if (isMissingForGood(row, now, policy)) return { kind: 'lost' };
    return { kind: 'wait', delay_ms: policy.poll_interval_ms, missing: true };
  }
  if (remote.processing_status === 'ended') return { kind: 'ended' };
  const ageMs = now.getTime() - row.submitted_at.getTime();
  const delayMs = ageMs > 3_600_000 ? policy.poll_interval_ms_max : policy.poll_interval_ms;
  return { kind: 'wait', delay_ms: delayMs, missing: false };
}
