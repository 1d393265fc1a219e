/** Limits after which a failing host rests. */
export interface BreakerPolicy {
  /** Consecutive failures before the first rest. */
  readonly failures_min: number;
  /** First rest; doubled after each failed try. */
  readonly rest_ms: number;
  readonly rest_ms_max: number;
}

/** Breakers of hosts, by `host:port`. */
export interface Breakers {
  /**
   * Tells whether a host may be called. While its breaker is open it may not; after each rest, one call tries it
   * (half-open), and counts as a failure until it succeeds.
   */
  mayCall(host: string, nowMs: number): boolean;
  /** Returns the time until the next call may try the host. Unit: milliseconds. */
  restMs(host: string, nowMs: number): number;
  /** Records the end of a call: whether the host answered. */
  record(host: string, answered: boolean, nowMs: number): void;
}

export const HOST_BREAKER_POLICY: BreakerPolicy = { failures_min: 5, rest_ms: 1_000, rest_ms_max: 30_000 };

/** Failing hosts that are remembered; the oldest makes room. */
const HOSTS_MAX = 1_000;

function restAfter(failures: number, policy: BreakerPolicy): number {
  return Math.min(policy.rest_ms_max, policy.rest_ms * 2 ** Math.max(0, failures - policy.failures_min));
}

export function createBreakers(policy: BreakerPolicy): Breakers {
  const failing = new Map<string, { failures: number; openUntilMs: number }>();

  return {
    mayCall(host, nowMs) {
      const state = failing.get(host);
      if (state === undefined || state.failures < policy.failures_min) return true;
      if (nowMs < state.openUntilMs) return false;
      state.failures += 1;
      state.openUntilMs = nowMs + restAfter(state.failures, policy);
      return true;
    },
    restMs: (host, nowMs) => Math.max(0, (failing.get(host)?.openUntilMs ?? 0) - nowMs),
    record(host, answered, nowMs) {
      if (answered) {
        failing.delete(host);
        return;
      }
      const state = failing.get(host) ?? { failures: 0, openUntilMs: 0 };
      // Calls that began before the breaker opened tell nothing new.
      if (state.failures >= policy.failures_min) return;
      state.failures += 1;
      state.openUntilMs = nowMs + restAfter(state.failures, policy);
      failing.set(host, state);
      for (const oldest of failing.keys()) {
        if (failing.size <= HOSTS_MAX) break;
        failing.delete(oldest);
      }
    },
  };
}
