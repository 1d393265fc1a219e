import type { ToolManifest } from './contract.ts';
import type { HostSettings } from './protocol.ts';
import { describeError } from './text.ts';

/** The policy for calls whose thread ended before their outcome, and its texts for the model and the log. */

/** Reason of a thread's end during a session. */
export type ThreadEnd =
  /** Stopped: a call passed its timeout and the thread did not come free. */
  | 'deadline'
  /** Stopped: every call still unfinished was given up by its caller. */
  | 'cancelled'
  /** Stopped: importing the module took too long. */
  | 'load_timeout'
  /** Stopped: the thread never began the session. */
  | 'no_start'
  /** Stopped: nothing was under way, and the thread did not go on. */
  | 'stuck'
  /** Ended by itself, or had to be: out of memory, `process.exit`, an error thrown outside of any promise. */
  | 'crash';

/** The facts of a call without an outcome whose thread has ended. */
export interface UnfinishedCall {
  /** Its function was entered. */
  readonly entered: boolean;
  readonly once: boolean;
  /** Its timeout has passed. */
  readonly overdue: boolean;
  readonly cancelled: boolean;
  /** It ran without yielding when the thread ended, was the only call, or is known to have ended the thread. */
  readonly culprit: boolean;
  /** Code left by an ended call ended the thread. */
  readonly leftover: boolean;
  /** It ran alone, because it was interrupted before. */
  readonly repeated: boolean;
  /** Earlier ends of its thread for which no call is known to be the cause. */
  readonly interruptions: number;
}

/** Reason of the outcome of a call that ended with its thread. */
export type EndedWhy = 'deadline' | 'cancelled' | 'thread' | 'culprit' | 'neighbour';

/** `again`: back into the queue. `alone`: once more, alone on a thread, so that a second failure is certainly its own. */
export type Verdict = 'again' | 'alone' | EndedWhy;

/** Maximum interruptions of a call without a known cause; beyond, the cause is not a single call. */
const INTERRUPTIONS_MAX = 10;

/** Decides about a call whose thread ended before its outcome. */
export function judge(end: ThreadEnd, call: UnfinishedCall): Verdict {
  if (call.cancelled) return 'cancelled';
  const isWornOut = call.interruptions >= INTERRUPTIONS_MAX;
  if (!call.entered) return isWornOut ? 'thread' : 'again';
  // A yielded call may have waited for its neighbours; a repeat alone shows its own time.
  if (call.overdue) return call.culprit || call.repeated || call.once ? 'deadline' : 'alone';
  if (call.culprit && end === 'crash') return 'culprit';
  if (call.once) return 'neighbour';
  // Code left by an ended call that strikes during the repeat says nothing about the call.
  return call.repeated && !(call.leftover && !isWornOut) ? 'neighbour' : 'alone';
}

/** Returns the error text of a call that ended with its thread. */
export function explain(why: EndedWhy, tool: ToolManifest, timeoutMs: number, detail: string): string {
  const texts: Readonly<Record<EndedWhy, string>> = {
    deadline: `TimeoutError: ${tool.name} ran longer than ${timeoutMs} ms and was stopped with its thread`,
    cancelled: 'AbortError: the caller gave up',
    thread: `no thread could run ${tool.name} (${detail})`,
    culprit: `${tool.name} ended its thread: ${detail}`,
    neighbour: `${tool.name} was interrupted because its thread ended (${detail})`,
  };
  return texts[why];
}

/** Returns the reason for stopping a thread. */
export function describeEnd(end: ThreadEnd, { load_timeout_ms }: HostSettings): string {
  const texts: Readonly<Record<ThreadEnd, string>> = {
    deadline: 'another call ran over its deadline',
    cancelled: 'the caller gave up',
    load_timeout: `importing a module took longer than ${load_timeout_ms} ms`,
    no_start: 'no thread began the task in time',
    stuck: 'code left running by an ended call blocked it',
    crash: 'it crashed',
  };
  return texts[end];
}

/** Returns the reason for a crash, by the pool's error. */
export function describeCrash(error: unknown, settings: HostSettings): string {
  // A tool may throw any value, null included.
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return outOfMemory(settings);
  const exit = /^worker exited with code: (-?\d+)$/.exec(String(message));
  if (exit !== null) return `process.exit(${exit[1]})`;
  return `uncaught ${describeError(error)}`;
}

export function outOfMemory({ thread_memory_mb }: HostSettings): string {
  return `out of memory (a thread has ${thread_memory_mb} MB)`;
}

/** Removes the message of an error, which may contain private data. */
export function withoutWords(detail: string): string {
  return detail.startsWith('uncaught ') ? 'uncaught error' : detail;
}
