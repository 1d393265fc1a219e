/** When a credential that keeps failing rests. */
export interface BreakerPolicy {
  /** Creates in a row without an answer before the first rest. */
  readonly failures_min: number;
  /** Milliseconds of the first rest; doubled for each further failure. */
  readonly rest_ms: number;
  readonly rest_ms_max: number;
}

export const BREAKER_POLICY_DEFAULT: BreakerPolicy = {
  failures_min: 3,
  rest_ms: 5_000,
  rest_ms_max: 300_000,
};

/** Milliseconds that a credential rests after its `failures`-th create in a row without an answer; 0 for none. */
export function breakerRestMs(failures: number, policy: BreakerPolicy): number {
  if (failures < policy.failures_min) return 0;
  return Math.min(policy.rest_ms_max, policy.rest_ms * 2 ** Math.min(failures - policy.failures_min, 16));
}
