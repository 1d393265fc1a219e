import type { SideEffects } from './contract.ts';
import type { CallProgress } from './progress.ts';

/** Reason of a thread's end during a task. */
export type ThreadEnd =
  /** Stopped because a call passed its timeout and the thread did not react. */
  | 'deadline'
  /** Stopped by us: every call still unfinished was given up by its caller. */
  | 'cancelled'
  /** Stopped by us: importing a module took too long. */
  | 'load_timeout'
  /** Stopped by us: it could not import a module, and never will. */
  | 'not_imported'
  /** Stopped by us: the thread never began the task. */
  | 'no_start'
  /** Stopped by us: nothing of the task was under way, and the thread did not go on with it. */
  | 'stuck'
  /** Ended by itself, or had to be: out of memory, `process.exit`, an error thrown outside of any promise. */
  | 'crash';

/** The facts of a call without an outcome whose thread has ended. */
export interface UnfinishedCall {
  readonly progress: CallProgress;
  readonly side_effects: SideEffects;
  /** Its timeout has passed. */
  readonly overdue: boolean;
  readonly cancelled: boolean;
  /** Its module could not be imported, or the thread ended during the import. */
  readonly not_imported: boolean;
  /** It ran without yielding when the thread ended, was alone on it, or is known to have ended it. */
  readonly culprit: boolean;
  /** Code left by an ended call ended the thread. */
  readonly leftover: boolean;
  /** Earlier interruptions without another known culprit, entered or not. */
  readonly interruptions: number;
  /** Earlier interruptions with another culprit, which does not run again. */
  readonly neighbours: number;
  /** Whether it was interrupted after it was entered. */
  readonly retried: boolean;
}

export type Settlement =
  /** Back into the queue: it was not entered, or a repeat is harmless. */
  | { readonly kind: 'again' }
  /** Once more, in a task of its own, so that a second failure is certainly its own. */
  | { readonly kind: 'again_alone' }
  | { readonly kind: 'ended'; readonly status: 'failed' | 'timed_out' | 'crashed'; readonly why: EndedWhy };

export type EndedWhy =
  'deadline' | 'cancelled' | 'module' | 'thread' | 'culprit' | 'neighbour' | 'outcome_lost';

/** Maximum interruptions of a call that was never entered; beyond, the cause is not a single call. */
const INTERRUPTIONS_MAX = 10;
/** Maximum interruptions by other culprits: a thousand calls may hold dozens of them. */
const NEIGHBOURS_MAX = 1_000;

/** Decides about a call whose thread ended before its outcome. Pure: the whole policy is this function. */
export function settleUnfinished(end: ThreadEnd, call: UnfinishedCall): Settlement {
  if (call.cancelled) return ended('crashed', 'cancelled');
  const isWornOut = call.interruptions >= INTERRUPTIONS_MAX || call.neighbours >= NEIGHBOURS_MAX;

  if (call.progress === 'waiting') {
    if (!isWornOut) return { kind: 'again' };
    return call.not_imported ? ended('failed', 'module') : ended('crashed', 'thread');
  }

  if (call.progress === 'done') {
    // Outcomes of `once` calls are sent before they count as done, so only harmless repeats get here.
    return call.side_effects === 'once' || isWornOut ? ended('crashed', 'outcome_lost') : { kind: 'again' };
  }

  if (call.overdue) {
    // A yielded call may have waited for its neighbours; a repeat alone shows its own time.
    const isOwn = call.culprit || call.retried || call.side_effects === 'once';
    return isOwn ? ended('timed_out', 'deadline') : { kind: 'again_alone' };
  }
  if (call.culprit && end === 'crash') return ended('crashed', 'culprit');
  if (call.side_effects === 'once') return ended('crashed', 'neighbour');
  // Code left by an ended call that strikes during the repeat says nothing about the call.
  const isTried = call.retried && !(call.leftover && call.interruptions < INTERRUPTIONS_MAX);
  return isTried ? ended('crashed', 'neighbour') : { kind: 'again_alone' };
}

function ended(status: 'failed' | 'timed_out' | 'crashed', why: EndedWhy): Settlement {
  return { kind: 'ended', status, why };
}
