/** Learns from the calls of this process how long calls of each tool take. */
export interface QuickTools {
  /** Milliseconds by which quick calls may delay one chunk of answers. */
  readonly chunk_ms_max: number;
  /**
   * How many calls of the tool to try: Infinity if its recent calls were quick, 0 if not, and a few for an unknown name.
   */
  worthTrying(toolName: string): number;
  observe(toolName: string, reply: ObservedCall): void;
  /** Records that the name belongs to no module tool, so that its calls are not tried. */
  skip(toolName: string): void;
}

/** Timing and outcome of a call, by the tool host's reply. */
export interface ObservedCall {
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  readonly duration_ms: number;
  /** A call that never started tells nothing about its tool. */
  readonly started: boolean;
  readonly result: string;
}

/** Thresholds for quick tools. */
export interface QuickToolsPolicy {
  /** Quick calls in a row before a tool counts as quick; doubles after each slow call. */
  readonly calls_min: number;
  /** Maximum moving average of the duration. Unit: milliseconds. */
  readonly mean_ms_max: number;
  /** Duration from which a single call makes its tool slow. Unit: milliseconds. */
  readonly call_ms_max: number;
  /** Result length from which a tool is not quick, because thousands of results go into one commit. Unit: characters. */
  readonly result_chars_max: number;
  /** Milliseconds by which quick calls may delay one chunk of answers; 0: none is tried. */
  readonly chunk_ms_max: number;
}

export const QUICK_TOOLS_POLICY_DEFAULT: QuickToolsPolicy = {
  calls_min: 32,
  mean_ms_max: 2,
  call_ms_max: 100,
  result_chars_max: 50_000,
  chunk_ms_max: 1_000,
};

/** Weight of a single call in the average. */
const WEIGHT = 1 / 32;
/** Maximum number of remembered names: models invent some. */
const NAMES_MAX = 2_000;
const DOUBLINGS_MAX = 20;

interface Pace {
  readonly calls: number;
  readonly mean_ms: number;
  /** Number of times that it stopped being quick. */
  readonly slowdowns: number;
}

/** Creates an empty record of tools. */
export function createQuickTools(policy: QuickToolsPolicy = QUICK_TOOLS_POLICY_DEFAULT): QuickTools {
  const paces = new Map<string, Pace>();
  const note = (toolName: string, pace: Pace): void => {
    if (paces.has(toolName) || paces.size < NAMES_MAX) paces.set(toolName, pace);
  };
  const isSlow = ({ status, duration_ms, result }: ObservedCall): boolean =>
    duration_ms >= policy.call_ms_max ||
    result.length > policy.result_chars_max ||
    (status !== 'succeeded' && status !== 'failed');
  return {
    chunk_ms_max: policy.chunk_ms_max,
    worthTrying(toolName) {
      if (policy.chunk_ms_max === 0) return 0;
      const pace = paces.get(toolName);
      if (pace === undefined) return paces.size < NAMES_MAX ? policy.calls_min : 0;
      const needed = policy.calls_min * 2 ** Math.min(pace.slowdowns, DOUBLINGS_MAX);
      return pace.calls >= needed && pace.mean_ms <= policy.mean_ms_max ? Infinity : 0;
    },
    observe(toolName, call) {
      if (!call.started) return;
      const { calls, mean_ms, slowdowns } = paces.get(toolName) ?? UNKNOWN;
      // The first calls of a module are its slowest, so the average begins at zero.
      const next = mean_ms + (call.duration_ms - mean_ms) * WEIGHT;
      note(
        toolName,
        isSlow(call)
          ? { calls: 0, mean_ms: 0, slowdowns: slowdowns + 1 }
          : { calls: calls + 1, mean_ms: next, slowdowns },
      );
    },
    skip(toolName) {
      if (!paces.has(toolName)) note(toolName, UNKNOWN);
    },
  };
}

const UNKNOWN: Pace = { calls: 0, mean_ms: 0, slowdowns: 0 };
