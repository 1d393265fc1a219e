/** What is known of how long calls of each tool take, learned from those that this process has made. */
export interface QuickTools {
  /** Milliseconds that the calls of one chunk of answers may hold it up. */
  readonly chunk_ms_max: number;
  /**
   * How many calls of the tool are worth waiting for: all, where the last ones came back at once, every one; none, where
   * they did not; and of a name that nobody has seen yet, a few to find out.
   */
  worthTrying(toolName: string): number;
  observe(toolName: string, reply: ObservedCall): void;
  /** The name is that of no module tool, so nobody need look whether its calls are quick. */
  passOver(toolName: string): void;
}

/** What a reply of the tool host says of a call. */
export interface ObservedCall {
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  readonly duration_ms: number;
  /** One that was never entered says nothing of its tool. */
  readonly started: boolean;
  readonly result: string;
}

/** What makes a tool a quick one. */
export interface QuickToolsPolicy {
  /** Calls in a row that have to be quick; twice as many after each that was not. */
  readonly calls_min: number;
  /** Milliseconds that a call takes on average, the latest counting most. */
  readonly mean_ms_max: number;
  /** Milliseconds from which a single call makes its tool a slow one. */
  readonly call_ms_max: number;
  /** Characters of a result from which its tool is no quick one: thousands of them would be one commit. */
  readonly result_chars_max: number;
  /** Milliseconds that the calls of one chunk of answers may hold it up; 0: none is tried. */
  readonly chunk_ms_max: number;
}

export const QUICK_TOOLS_POLICY_DEFAULT: QuickToolsPolicy = {
  calls_min: 32,
  mean_ms_max: 2,
  call_ms_max: 100,
  result_chars_max: 50_000,
  chunk_ms_max: 1_000,
};

/** How much of the average a single call is. */
const WEIGHT = 1 / 32;
/** Names that are remembered: models invent some. */
const NAMES_MAX = 2_000;
const DOUBLINGS_MAX = 20;

interface Pace {
  readonly calls: number;
  readonly mean_ms: number;
  /** Times that it was quick no longer. */
  readonly falls: number;
}

/** Knows of no tool at first. */
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
      const needed = policy.calls_min * 2 ** Math.min(pace.falls, DOUBLINGS_MAX);
      return pace.calls >= needed && pace.mean_ms <= policy.mean_ms_max ? Infinity : 0;
    },
    observe(toolName, call) {
      if (!call.started) return;
      const { calls, mean_ms, falls } = paces.get(toolName) ?? UNKNOWN;
      // The first calls of a code are its slowest, so the average begins at nothing.
      const next = mean_ms + (call.duration_ms - mean_ms) * WEIGHT;
      note(
        toolName,
        isSlow(call)
          ? { calls: 0, mean_ms: 0, falls: falls + 1 }
          : { calls: calls + 1, mean_ms: next, falls },
      );
    },
    passOver(toolName) {
      if (!paces.has(toolName)) note(toolName, UNKNOWN);
    },
  };
}

const UNKNOWN: Pace = { calls: 0, mean_ms: 0, falls: 0 };
