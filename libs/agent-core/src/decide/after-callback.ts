/** Outcome of a callback delivery. */
export type CallbackOutcome =
  | { readonly kind: 'answered'; readonly status: number }
  /** No response: refused, timed out, or a forbidden address. */
  | { readonly kind: 'unreachable'; readonly reason: string; readonly permanent: boolean };

export type CallbackDecision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'try_again'; readonly delay_ms: number; readonly error: string }
  | { readonly kind: 'give_up'; readonly error: string };

/**
 * Delays before the second and later deliveries.
 * Source: Standard Webhooks specification.
 */
const DELAYS_MS: readonly number[] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400].map(
  (seconds) => seconds * 1_000,
);

/**
 * Decides after the `attempts`-th delivery (the first is 1). Only a 2xx counts as delivered.
 * A redirect would leave the checked address. 410 means that the receiver is gone.
 */
export function decideAfterCallback(outcome: CallbackOutcome, attempts: number): CallbackDecision {
  if (outcome.kind === 'answered' && outcome.status >= 200 && outcome.status < 300)
    return { kind: 'delivered' };
  const error = outcome.kind === 'answered' ? `answered with status ${outcome.status}` : outcome.reason;
  const gone = outcome.kind === 'answered' ? outcome.status === 410 : outcome.permanent;
  const delayMs = DELAYS_MS[attempts - 1];
  if (gone || delayMs === undefined) return { kind: 'give_up', error };
  return { kind: 'try_again', delay_ms: delayMs, error };
}
