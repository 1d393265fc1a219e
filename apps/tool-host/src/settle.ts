import type { SideEffects } from './contract.ts';
import type { CallProgress } from './progress.ts';

/** Why a thread ended in the middle of a task. */
export type ThreadEnd =
  /** Stopped by us: a call passed its deadline and its thread did not notice. */
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

/** What is known about one call that has no outcome when its thread has ended. */
export interface UnfinishedCall {
  readonly progress: CallProgress;
  readonly side_effects: SideEffects;
  /** The deadline of this call has passed. */
  readonly overdue: boolean;
  readonly cancelled: boolean;
  /** The module of this call's tool could not be imported, or the thread ended over it. */
  readonly not_imported: boolean;
  /** This call was running without yielding when the thread ended, was alone on it, or is known to have ended it. */
  readonly culprit: boolean;
  /** What ended the thread was none of its calls, but what an ended one had left behind. */
  readonly stranger: boolean;
  /** How often the call was interrupted before, entered or not, where no other is known to have been the cause. */
  readonly interruptions: number;
  /** How often another call was: each time one that does not come again. */
  readonly neighbours: number;
  /** Whether it was interrupted after it had been entered. */
  readonly retried: boolean;
}

export type Settlement =
  /** Back into the queue: it was not entered, or repeating it is harmless. */
  | { readonly kind: 'again' }
  /** Once more, in a task of its own, so that a second failure is certainly its own. */
  | { readonly kind: 'again_alone' }
  | { readonly kind: 'ended'; readonly status: 'failed' | 'timed_out' | 'crashed'; readonly why: EndedWhy };

export type EndedWhy =
  'deadline' | 'cancelled' | 'module' | 'thread' | 'culprit' | 'neighbour' | 'outcome_lost';

/** A call that was never entered is put back this often; then something is wrong beyond any one call. */
const INTERRUPTIONS_MAX = 10;
/** And behind so many calls that took their thread with them: among a thousand there may be dozens, and none says anything of it. */
const NEIGHBOURS_MAX = 1_000;

/** What becomes of a call whose thread ended before it had an outcome. Pure: the whole policy is this function. */
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
    // One that had yielded may have waited for a neighbour to let go of the thread: by itself it shows whose time it took.
    const isOwn = call.culprit || call.retried || call.side_effects === 'once';
    return isOwn ? ended('timed_out', 'deadline') : { kind: 'again_alone' };
  }
  if (call.culprit && end === 'crash') return ended('crashed', 'culprit');
  if (call.side_effects === 'once') return ended('crashed', 'neighbour');
  // A stranger that strikes in the try alone says nothing about the call.
  const isTried = call.retried && !(call.stranger && call.interruptions < INTERRUPTIONS_MAX);
  return isTried ? ended('crashed', 'neighbour') : { kind: 'again_alone' };
}

function ended(status: 'failed' | 'timed_out' | 'crashed', why: EndedWhy): Settlement {
  return { kind: 'ended', status, why };
}
