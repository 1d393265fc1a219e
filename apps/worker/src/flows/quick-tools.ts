/** What is known of how long calls of each tool take, learned from those that this process has made. */
export interface QuickTools {
  /**
   * How many calls of the tool are worth waiting for: all, where the last ones came back at once, every one; none, where
   * they did not; and of a tool that nobody has called yet, a few to find out.
   */
  worthTrying(toolName: string): number;
  observe(toolName: string, reply: ObservedCall): void;
}

/** What a reply of the tool host says of the time that the call took. */
export interface ObservedCall {
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  readonly duration_ms: number;
}

/** What makes a tool a quick one. */
export interface QuickToolsPolicy {
  /** Calls in a row that have to be quick. */
  readonly calls_min: number;
  /** Milliseconds that a call takes on average, the latest counting most. */
  readonly mean_ms_max: number;
  /** Milliseconds from which a single call makes its tool a slow one. */
  readonly call_ms_max: number;
}

export const QUICK_TOOLS_POLICY_DEFAULT: QuickToolsPolicy = {
  calls_min: 32,
  mean_ms_max: 2,
  call_ms_max: 100,
};

/** How much of the average a single call is. */
const WEIGHT = 1 / 32;

interface Pace {
  readonly calls: number;
  readonly mean_ms: number;
}

/** Knows of no tool at first. A call that is slow, runs out of time or crashes makes its tool prove itself anew. */
export function createQuickTools(policy: QuickToolsPolicy = QUICK_TOOLS_POLICY_DEFAULT): QuickTools {
  const paces = new Map<string, Pace>();
  return {
    worthTrying(toolName) {
      const pace = paces.get(toolName);
      if (pace === undefined) return policy.calls_min;
      return pace.calls >= policy.calls_min && pace.mean_ms <= policy.mean_ms_max ? Infinity : 0;
    },
    observe(toolName, { status, duration_ms }) {
      const isSlow = duration_ms >= policy.call_ms_max || status === 'timed_out' || status === 'crashed';
      const { calls, mean_ms } = paces.get(toolName) ?? { calls: 0, mean_ms: 0 };
      // The first calls of a code are its slowest, so the average begins at nothing.
      const next = mean_ms + (duration_ms - mean_ms) * WEIGHT;
      paces.set(toolName, isSlow ? { calls: 0, mean_ms: 0 } : { calls: calls + 1, mean_ms: next });
    },
  };
}
