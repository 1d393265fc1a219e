/**
 * How calls are grouped, from what their tools took so far.
 *
 * Posting a task to a thread costs some 20 µs and a fast call 1 µs, so fast calls travel by the hundred. A slow call
 * among them would make the others wait, so tools known to be slow travel in small tasks of their own, on threads of
 * their own. A tool nobody has measured yet is treated as slow until its first few calls have come back, and for a
 * moment only one task of it runs. If its calls must not run twice, few share a thread until then: should they turn out
 * to compute, those that take each other's time cannot be made again.
 */

/** What is known of a tool. Times are moving averages per call, in milliseconds. */
export interface ToolProfile {
  samples: number;
  /** From entering the function to its outcome. */
  durationMs: number;
  /** The part of it that keeps the thread from doing anything else, before the first await and after. */
  busyMs: number;
  /** So many of its next calls get a thread to themselves, because one of them has ended its thread. */
  aloneCalls: number;
}

export type Lane = 'fast' | 'slow';

/** On average slower than this, a tool is in the slow lane. */
const SLOW_CALL_MS = 5;
/** A fast task holds about this much work, so that several threads share a long queue. */
export const FAST_TASK_MS = 25;
/** More calls per task gain nothing: below 2 µs per call the rest is the call itself. */
const FAST_TASK_CALLS_MAX = 1_000;
/** Fewer calls per task are not worth spreading over idle threads. */
const FAST_TASK_CALLS_MIN = 50;
/** A slow task of calls that keep the thread busy holds about this much work. */
const SLOW_TASK_BUSY_MS = 20;
/** So many unmeasured calls that must not run twice share a thread: each surely has a quarter of its deadline to itself. */
const UNMEASURED_ONCE_CALLS = 4;
/** One hanging call shall not brand its tool as slow for thousands of calls. */
const SAMPLE_MS_MAX = 1_000;
const AVERAGE_OVER = 10;
/** For so many calls a tool is given no chance to end a thread under its own calls again. */
const ALONE_CALLS = 1_000;

export function newProfile(): ToolProfile {
  return { samples: 0, durationMs: 0, busyMs: 0, aloneCalls: 0 };
}

/** Takes note that a thread has ended under calls of this tool, none of which is made again. */
export function isolate(profile: ToolProfile): void {
  profile.aloneCalls = ALONE_CALLS;
}

/** Takes one more measured call into the averages. */
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

/** How many calls of this slow (or unmeasured) tool go into one task of a thread that runs `inFlight` at a time. */
export function slowTaskCalls(profile: ToolProfile, inFlight: number, once: boolean): number {
  if (profile.aloneCalls > 0) return 1;
  if (profile.samples === 0) return once ? Math.min(inFlight, UNMEASURED_ONCE_CALLS) : inFlight;
  if (profile.busyMs <= 1) return inFlight;
  return Math.max(1, Math.min(inFlight, Math.floor(SLOW_TASK_BUSY_MS / profile.busyMs)));
}

/** The most calls one fast task may take when `waiting` fast calls are shared by `freeThreads`. */
export function fastTaskCallsMax(waiting: number, freeThreads: number): number {
  const share = Math.ceil(waiting / Math.max(1, freeThreads));
  return Math.min(FAST_TASK_CALLS_MAX, Math.max(FAST_TASK_CALLS_MIN, share));
}
