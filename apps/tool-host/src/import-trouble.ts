/**
 * Handling of modules that a thread could not import.
 * The module may be fixed soon, so its calls are tried in another thread. Each failed attempt costs a thread: attempts run
 * one at a time, with growing pauses. After a number of consecutive failures, each further failure ends the waiting calls.
 */

/** Consecutive failures after which waiting calls fail. */
const FAILURES_MAX = 10;
const REST_MS_MIN = 20;
const REST_MS_MAX = 1_000;
/**
 * Pauses grow with each failure, even with successes in between, and restart after this time without a failure. Unit:
 * milliseconds.
 */
const FORGOTTEN_AFTER_MS = 30_000;

export interface ImportTrouble {
  /** Reason of the last failure. */
  readonly reason: string;
  readonly failedMs: number;
  /** Consecutive failures. */
  readonly failures: number;
  readonly restMs: number;
  /** The task of the current attempt. */
  readonly trial: number | undefined;
}

/** Records that a task started at `begunMs` could not import the module. */
export function afterFailure(
  trouble: ImportTrouble | undefined,
  reason: string,
  begunMs: number,
  nowMs: number,
): ImportTrouble {
  // Tasks that ran in parallel count as one failure.
  if (trouble !== undefined && begunMs <= trouble.failedMs) return trouble;
  const isForgotten = trouble === undefined || nowMs - trouble.failedMs > FORGOTTEN_AFTER_MS;
  return {
    reason,
    failedMs: nowMs,
    failures: (trouble?.failures ?? 0) + 1,
    restMs: isForgotten ? REST_MS_MIN : Math.min(REST_MS_MAX, trouble.restMs * 2),
    trial: undefined,
  };
}

/** Records that a task started at `begunMs` has entered a function of the module. */
export function afterSuccess(trouble: ImportTrouble, begunMs: number): ImportTrouble {
  if (trouble.failures === 0 || begunMs <= trouble.failedMs) return trouble;
  return { ...trouble, failures: 0, trial: undefined };
}

/** Whether tasks of the tool are attempts, which run one at a time. */
export function isOnTrial(trouble: ImportTrouble | undefined): trouble is ImportTrouble {
  return trouble !== undefined && trouble.failures > 0;
}

/** Whether a task with calls of the tool may start. */
export function mayBegin(trouble: ImportTrouble | undefined, nowMs: number): boolean {
  if (!isOnTrial(trouble)) return true;
  return trouble.trial === undefined && nowMs - trouble.failedMs >= trouble.restMs;
}

/** Whether so many attempts have failed that the calls fail. */
export function isHopeless(trouble: ImportTrouble | undefined): boolean {
  return trouble !== undefined && trouble.failures >= FAILURES_MAX;
}
