/** Limits after which a failing credential rests. */
export interface BreakerPolicy {
  /** Consecutive creates without a response before the first rest. */
  readonly failures_min: number;
  /**
   * First rest; doubled for each further failure.
   * Unit: milliseconds.
   */
  readonly rest_ms: number;
  readonly rest_ms_max: number;
}

export const BREAKER_POLICY_DEFAULT: BreakerPolicy = {
  failures_min: 3,
  rest_ms: 5_000,
  rest_ms_max: 300_000,
};

/**
 * Returns the rest of a credential after its `failures`-th consecutive create without a response; 0 for none.
 * Unit: milliseconds.
 */
export function breakerRestMs(failures: number, policy: BreakerPolicy): number {
  if (failures < policy.failures_min) return 0;
  return Math.min(policy.rest_ms_max, policy.rest_ms * 2 ** Math.min(failures - policy.failures_min, 16));
}
