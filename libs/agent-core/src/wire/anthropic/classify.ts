/**
 * Classifies failures of the Messages Batches API. Error texts may change at any time, so status, type and code decide.
 * Text counts only where nothing else tells two cases apart.
 */
import type { RefusalCause } from '../../model/refusal-cause.ts';

/** A failed create. */
export interface CreateFailure {
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** `error.type` of the body. */
  readonly error_type: string | null;
  /** `error.details.error_code` of the body. */
  readonly error_code: string | null;
  /** The body was the API's error envelope (for 413: or the edge's shorter form). */
  readonly has_provider_shape: boolean;
  readonly retry_after_ms: number | null;
  readonly message: string;
}

export type CreateVerdict =
  /** The provider has not taken the batch. */
  | { readonly verdict: 'refused'; readonly what: RefusalCause; readonly retry_after_ms: number | null }
  /** The provider may have taken it. */
  | { readonly verdict: 'unknown'; readonly reason: string };

const SPEND_LIMIT_CODES = new Set(['enforced_spend_limit_reached', 'contract_spend_limit_reached']);

/** Codes about the account although status (400 or 403) or type suggest a faulty request. */
const ACCOUNT_CODES = new Set([
  'organization_on_hold',
  'cmek_key_disabled',
  'claude_code_key_creator_not_member',
]);

/**
 * Refusals for lack of money: a 400 without a code, told from a bad request only by its text.
 * Either the user's own limit is reached, or the credit balance is empty.
 */
const OUT_OF_FUNDS = /reached your specified (?:workspace )?API usage limits|credit balance is too low/i;

/**
 * Judges a failed create. Only an explicit refusal by the provider proves that no batch exists.
 * A timeout, a reset, a 5xx, 408, 409 or an HTML page proves nothing.
 */
export function classifyCreateFailure(failure: CreateFailure): CreateVerdict {
  if (failure.status === null) return { verdict: 'unknown', reason: failure.message };
  const what = failure.has_provider_shape ? refusalOf(failure, failure.status) : null;
  if (what === null) return { verdict: 'unknown', reason: `HTTP ${failure.status}: ${failure.message}` };
  return { verdict: 'refused', what, retry_after_ms: failure.retry_after_ms };
}

function refusalOf(failure: CreateFailure, status: number): RefusalCause | null {
  const code = failure.error_code;
  switch (status) {
    case 400:
    case 422:
      if (code !== null && SPEND_LIMIT_CODES.has(code)) return 'spend_limit';
      if (code !== null && ACCOUNT_CODES.has(code)) return 'unauthorized';
      return OUT_OF_FUNDS.test(failure.message) ? 'spend_limit' : 'bad_request';
    case 401:
    case 403:
      return 'unauthorized';
    // The account cannot pay: nothing is accepted until it can.
    case 402:
      return 'spend_limit';
    case 404:
      return 'not_found';
    case 413:
      return 'too_large';
    case 429:
      return code !== null && SPEND_LIMIT_CODES.has(code) ? 'spend_limit' : 'rate_limited';
    case 529:
      return 'overloaded';
    default:
      return null;
  }
}

/**
 * - `too_long`: the prompt exceeds the model's context; the same request can never succeed.
 * - `permanent`: the request is invalid; the same request can never succeed.
 * - `account`: key, permission, organisation or billing; after the repair the request may be sent again.
 * - `overloaded`: the provider had no room or no time; the request is not at fault.
 * - `retryable`: it failed at the provider, perhaps because of its content; retry a few times.
 */
export type ErroredLineKind = 'too_long' | 'permanent' | 'account' | 'overloaded' | 'retryable';

const TOO_LONG =
  /prompt is too long|exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context|input is too long/i;

/** Judges an errored result line by its inner error. Errored lines are never billed. */
export function classifyErroredLine(error: {
  readonly error_type: string;
  readonly error_code: string | null;
  readonly message: string;
}): ErroredLineKind {
  const { error_type, error_code, message } = error;
  if (error_code !== null && (ACCOUNT_CODES.has(error_code) || SPEND_LIMIT_CODES.has(error_code)))
    return 'account';
  switch (error_type) {
    case 'invalid_request_error':
      if (OUT_OF_FUNDS.test(message)) return 'account';
      return TOO_LONG.test(message) ? 'too_long' : 'permanent';
    case 'request_too_large':
      return 'too_long';
    case 'not_found_error':
      return 'permanent';
    case 'authentication_error':
    case 'permission_error':
    case 'billing_error':
      return 'account';
    case 'overloaded_error':
    case 'rate_limit_error':
    case 'timeout_error':
      return 'overloaded';
    default:
      return 'retryable';
  }
}
