import type { RefusalCause } from '../model/refusal-cause.ts';

export interface RefusalPolicy {
  /** Milliseconds a credential rests after a refusal that names no time; doubled for each further one in a row. */
  readonly backoff_ms: number;
  readonly backoff_ms_max: number;
  /** Milliseconds between two tries of a credential that is refused altogether. */
  readonly pause_ms: number;
  /** Creates refused as bad in a row, under one credential, after which it is not the requests that are bad. */
  readonly refusals_max: number;
}

export const REFUSAL_POLICY_DEFAULT: RefusalPolicy = {
  backoff_ms: 5_000,
  backoff_ms_max: 300_000,
  pause_ms: 300_000,
  refusals_max: 12,
};

/** Milliseconds of a `Retry-After` that are believed: some providers have asked for weeks. */
export const RETRY_AFTER_MS_MAX = 3_600_000;

export type RefusalDecision =
  /** Halve it: one of its requests is the cause. */
  | { readonly kind: 'split'; readonly at: number; readonly rest?: CredentialRest }
  /** It is alone: its run ends. */
  | { readonly kind: 'fail_step' }
  /** Try the same again later; the credential rests meanwhile. Burns no attempt. */
  | ({ readonly kind: 'wait' } & CredentialRest);

/** For how long nothing is sent under the credential, and why. */
export interface CredentialRest {
  readonly delay_ms: number;
  readonly pause_reason: string;
  /** True when waiting mends nothing: a person has to. */
  readonly needs_operator: boolean;
}

/** Why nothing is sent under a credential for a while, as an operator reads it. */
export const PAUSE_REASONS = {
  bad_request: 'the provider refuses every request as bad',
  unauthorized: 'the provider refuses the key',
  spend_limit: 'the spend limit at the provider is reached',
  rate_limited: 'the provider limits the rate',
  overloaded: 'the provider is overloaded',
  unanswered: 'creates get no answer',
  clocks_apart: 'the clocks of the provider and the database are too far apart',
} as const;

/** How the reason begins where a result says that the account is at fault, before the provider's own word for it. */
export const ACCOUNT_TROUBLE = 'a result says ';

/**
 * What to do after the provider refused to create a batch of `requestCount` requests. `failures` counts the refusals in
 * a row before this one; `retryAfterMs` is the time that the provider named, if any. `refusedInRow` counts the creates under
 * the credential that were refused as bad since the last that was accepted: halving finds one bad request among good ones,
 * and where no half is ever accepted, failing what is alone would fail every run for a fault that is not theirs. Halving goes
 * on then, a rest after each, for what is good may be in one batch with what is not.
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
      // A `Retry-After` of 0, or in the past, is no leave to hammer a provider that has just refused.
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
