/**
 * Causes of a clear refusal of a create, sorted by the next action.
 *
 * - `bad_request`: something in the body is refused; halve it until the culprit is alone.
 * - `too_large`: the body is over the limit in bytes or requests; halve it.
 * - `unauthorized`: key, organisation or encryption key; the credential is paused, no request is at fault.
 * - `not_found`: no such endpoint under this base URL; for the operator, as `unauthorized`.
 * - `rate_limited`, `overloaded`: wait, then send the same again.
 * - `spend_limit`: paid-for volume is used up; waiting minutes does not help.
 */
export type RefusalCause =
  'bad_request' | 'too_large' | 'unauthorized' | 'not_found' | 'rate_limited' | 'overloaded' | 'spend_limit';
