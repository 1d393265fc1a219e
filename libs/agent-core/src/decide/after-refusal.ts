import type { RefusalCause } from '../model/refusal-cause.ts';

export interface RefusalPolicy {
  /**
   * Backoff of a credential after a refusal without a time; doubled for each further refusal in a row.
   * Unit: milliseconds.
   */
  readonly backoff_ms: number;
  readonly backoff_ms_max: number;
  /**
   * Retry interval of a refused credential.
   * Unit: milliseconds.
   */
  readonly pause_ms: number;
  /** Consecutive creates of a credential refused as bad before the requests are not to blame. */
  readonly refusals_max: number;
}

export const REFUSAL_POLICY_DEFAULT: RefusalPolicy = {
  backoff_ms: 5_000,
  backoff_ms_max: 300_000,
  pause_ms: 300_000,
  refusals_max: 12,
};

/**
 * Longest `Retry-After` that is honoured; some providers have asked for weeks.
 * Unit: milliseconds.
 */
export const RETRY_AFTER_MS_MAX = 3_600_000;

export type RefusalDecision =
  /** Halve the batch: one request is the cause. */
  | { readonly kind: 'split'; readonly at: number; readonly rest?: CredentialRest }
  /** The request is alone: its run ends. */
  | { readonly kind: 'fail_step' }
  /** Retry later without using an attempt; the credential rests meanwhile. */
  | ({ readonly kind: 'wait' } & CredentialRest);

/** Pause of a credential, and its reason. */
export interface CredentialRest {
  readonly delay_ms: number;
  readonly pause_reason: string;
  /** Waiting does not help; an operator must act. */
  readonly needs_operator: boolean;
}

/** Reasons for a pause of a credential, for the operator. */
export const PAUSE_REASONS = {
  bad_request: 'the provider refuses every request as bad',
  unauthorized: 'the provider refuses the key',
  spend_limit: 'the spend limit at the provider is reached',
  rate_limited: 'the provider limits the rate',
  overloaded: 'the provider is overloaded',
  unanswered: 'creates get no answer',
  clocks_apart: 'the clocks of the provider and the database are too far apart',
} as const;

/** Prefix of the reason where a result blames the account; the provider's own term follows. */
export const ACCOUNT_TROUBLE = 'a result says ';

/**
 * Decides after the provider refused to create a batch of `requestCount` requests.
 * `failures` counts the earlier refusals in a row; `retryAfterMs` is the provider's time, if any. `refusedInRow` counts
 * the credential's creates refused as bad since the last accepted create. Halving finds a bad request among good
 * requests. Where no half is ever accepted, failing a lone request would fail every run for a foreign fault. Halving
 * then goes on with a rest each time, as a batch may mix good and bad requests.
 */
export function decideAfterRefusal(
  cause: RefusalCause,
  requestCount: number,
  failures: number,
  retryAfterMs: number | null,
  policy: RefusalPolicy,
  refusedInRow = 0,
): RefusalDecision {
  switch (cause) {
    case 'bad_request':
      if (refusedInRow >= policy.refusals_max) {
        const rest = {
          delay_ms: policy.pause_ms,
          pause_reason: PAUSE_REASONS.bad_request,
          needs_operator: true,
        };
        return requestCount > 1 ? { ...halved(requestCount), rest } : { kind: 'wait', ...rest };
      }
      return requestCount > 1 ? halved(requestCount) : { kind: 'fail_step' };
    case 'too_large':
      return requestCount > 1 ? halved(requestCount) : { kind: 'fail_step' };
    case 'unauthorized':
    case 'not_found':
      return {
        kind: 'wait',
        delay_ms: policy.pause_ms,
        pause_reason: PAUSE_REASONS.unauthorized,
        needs_operator: true,
      };
    case 'spend_limit':
      return {
        kind: 'wait',
        delay_ms: policy.pause_ms,
        pause_reason: PAUSE_REASONS.spend_limit,
        needs_operator: true,
      };
    case 'rate_limited':
    case 'overloaded': {
      const own = Math.min(policy.backoff_ms_max, policy.backoff_ms * 2 ** Math.min(failures, 16));
      // A `Retry-After` of 0, or in the past, must not shorten the backoff.
      const named = retryAfterMs === null ? own : Math.max(retryAfterMs, policy.backoff_ms);
      return {
        kind: 'wait',
        delay_ms: Math.min(named, RETRY_AFTER_MS_MAX),
        pause_reason: PAUSE_REASONS[cause],
        needs_operator: false,
      };
    }
  }
}

function halved(requestCount: number): { readonly kind: 'split'; readonly at: number } {
  return { kind: 'split', at: Math.ceil(requestCount / 2) };
}
