/**
 * Grouping of calls by the measured times of their tools.
 *
 * Posting a task to a thread costs about 20 µs and a fast call 1 µs, so fast calls travel in hundreds. A slow call would
 * delay the others, so slow tools have small tasks on their own threads. An unmeasured tool counts as slow until its first
 * calls return, and at first only one of its tasks runs. If its calls must run once, few share a thread until then:
 * computing calls could exceed each other's timeouts and could not be repeated.
 */

/** Measurements of a tool: moving averages per call. Unit: milliseconds. */
export interface ToolProfile {
  samples: number;
  /** Time from entering the function to its outcome. */
  durationMs: number;
  /** Time in which the call blocks its thread, before and after its first await. */
  busyMs: number;
  /** Number of next calls that run alone in a thread, because a call of the tool ended its thread. */
  aloneCalls: number;
}

export type Lane = 'fast' | 'slow';

/** Average from which a tool is in the slow lane. Unit: milliseconds. */
const SLOW_CALL_MS = 5;
/** Work of a fast task, so that several threads share a long queue. Unit: milliseconds. */
export const FAST_TASK_MS = 25;
/** Maximum calls per fast task: below 2 µs per call, more gain nothing. */
const FAST_TASK_CALLS_MAX = 1_000;
/** Minimum calls per fast task: fewer are not worth another thread. */
const FAST_TASK_CALLS_MIN = 50;
/** Work of a slow task of blocking calls. Unit: milliseconds. */
const SLOW_TASK_BUSY_MS = 20;
/** Unmeasured `once` calls per thread: each has at least a quarter of its timeout to itself. */
const UNMEASURED_ONCE_CALLS = 4;
/** Cap on a sample, so that a single hanging call does not mark its tool as slow for thousands of calls. */
const SAMPLE_MS_MAX = 1_000;
const AVERAGE_OVER = 10;
/** Calls that run alone after a call of the tool ended its thread. */
const ALONE_CALLS = 1_000;

export function newProfile(): ToolProfile {
  return { samples: 0, durationMs: 0, busyMs: 0, aloneCalls: 0 };
}

/** Records that a thread ended under calls of this tool that are not repeated. */
export function isolate(profile: ToolProfile): void {
  profile.aloneCalls = ALONE_CALLS;
}

/** Adds a measured call to the averages. */
export function learn(profile: ToolProfile, durationMs: number, busyMs: number): void {
  profile.samples += 1;
  const weight = 1 / Math.min(profile.samples, AVERAGE_OVER);
  profile.durationMs += weight * (Math.min(durationMs, SAMPLE_MS_MAX) - profile.durationMs);
  profile.busyMs += weight * (Math.min(busyMs, SAMPLE_MS_MAX) - profile.busyMs);
}

export function laneOf(profile: ToolProfile): Lane {
  return profile.aloneCalls === 0 && profile.samples > 0 && profile.durationMs <= SLOW_CALL_MS
    ? 'fast'
    : 'slow';
}

/** Returns the calls of a slow or unmeasured tool per task, for a thread that runs `inFlight` at a time. */
export function slowTaskCalls(profile: ToolProfile, inFlight: number, once: boolean): number {
  if (profile.aloneCalls > 0) return 1;
  if (profile.samples === 0) return once ? Math.min(inFlight, UNMEASURED_ONCE_CALLS) : inFlight;
  if (profile.busyMs <= 1) return inFlight;
  return Math.max(1, Math.min(inFlight, Math.floor(SLOW_TASK_BUSY_MS / profile.busyMs)));
}

/** Returns the maximum calls of a fast task when `freeThreads` share `waiting` fast calls. */
export function fastTaskCallsMax(waiting: number, freeThreads: number): number {
  const share = Math.ceil(waiting / Math.max(1, freeThreads));
  return Math.min(FAST_TASK_CALLS_MAX, Math.max(FAST_TASK_CALLS_MIN, share));
}
