/**
 * What is done about a module that a thread could not import. It may be whole again in a moment, so its calls are tried
 * in another thread. Each try that fails costs a thread: they are made one at a time and ever further apart. After so many
 * in a row each further one that fails ends the calls that wait for it.
 */

/** So many tries in a row that failed, and the calls that wait do. */
const FAILURES_MAX = 10;
const REST_MS_MIN = 20;
const REST_MS_MAX = 1_000;
/** Rests grow from failure to failure, also where some tries succeed between them, and begin anew after so long without one. */
const FORGOTTEN_AFTER_MS = 30_000;

export interface ImportTrouble {
  /** Why the last try failed. */
  readonly reason: string;
  readonly failedMs: number;
  /** Tries in a row that failed. */
  readonly failures: number;
  readonly restMs: number;
  /** The task that is the next try, while it is under way. */
  readonly trial: number | undefined;
}

/** A task that was begun at `begunMs` could not import the module. */
export function afterFailure(
  trouble: ImportTrouble | undefined,
  reason: string,
  begunMs: number,
  nowMs: number,
): ImportTrouble {
  // Tasks that were begun side by side have failed together.
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

/** A task that was begun at `begunMs` has entered a function of the module. */
export function afterSuccess(trouble: ImportTrouble, begunMs: number): ImportTrouble {
  if (trouble.failures === 0 || begunMs <= trouble.failedMs) return trouble;
  return { ...trouble, failures: 0, trial: undefined };
}

/** Whether tasks of the tool are tries, of which there is one at a time. */
export function isOnTrial(trouble: ImportTrouble | undefined): trouble is ImportTrouble {
  return trouble !== undefined && trouble.failures > 0;
}

/** Whether a task with calls of the tool may be begun. */
export function mayBegin(trouble: ImportTrouble | undefined, nowMs: number): boolean {
  if (!isOnTrial(trouble)) return true;
  return trouble.trial === undefined && nowMs - trouble.failedMs >= trouble.restMs;
}

/** Whether so many tries have failed that the calls do. */
export function isHopeless(trouble: ImportTrouble | undefined): boolean {
  return trouble !== undefined && trouble.failures >= FAILURES_MAX;
}
