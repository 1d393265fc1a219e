import type { BatchState } from '../machine/batch.ts';
import { isCapReason } from '../model/cap-reason.ts';

/** Phases of a batch, from a caller's view. */
export const PHASES = [
  'receiving',
  'running',
  'waiting_for_provider',
  'waiting_for_caller',
  'paused',
  'cancelling',
  'done',
] as const;
export type Phase = (typeof PHASES)[number];

/** Causes that keep a batch from going on. */
export const WAITING_CAUSES = [
  'paused',
  'cap',
  'credential',
  'retrying',
  'behind_another_batch',
  'no_worker',
] as const;
export type WaitingCause = (typeof WAITING_CAUSES)[number];

/** The stored rows of a batch that its progress is derived from. */
export interface ProgressFacts {
  readonly now: Date;
  readonly state: BatchState;
  readonly state_reason: string | null;
  readonly created_at: Date;
  readonly total: number;
  readonly accepted: number;
  /** Runs that wait for the conversation of an earlier run. */
  readonly queued: number;
  readonly requires_action: number;
  /** Runs whose step has failed and is tried again, at the provider or waiting for its time. */
  readonly retrying: number;
  /** Tool calls of stored answers. */
  readonly tool_calls: number;
  /** Of them: calls with an outcome. */
  readonly ended_tool_calls: number;
  /** Of those: calls that failed or have an unknown outcome. */
  readonly failed_tool_calls: number;
  readonly unknown_tool_calls: number;
  /** Runs that have ended, in any way. */
  readonly ended: number;
  /** Whether ready runs wait for room under the cap. */
  readonly waits_for_room: boolean;
  /** Steps in provider batches that the provider has not reported as ended. */
  readonly steps_at_provider: number;
  readonly oldest_sent_at: Date | null;
  /** When a worker asks the provider again. */
  readonly next_look_at: Date | null;
  readonly last_ended_at: Date | null;
  /** Runs that ended in the window before the last end. */
  readonly ended_in_window: number;
  /** Begin of that window. */
  readonly window_from: Date | null;
  /** A pause of the credential, with its end; null: it is not paused. */
  readonly credential_pause: { readonly reason: string; readonly until: Date | null } | null;
  /** Due time of the longest due row that no worker holds. */
  readonly due_since: Date | null;
  /** Whether a worker holds any lease. */
  readonly is_any_leased: boolean;
}

/** Why a batch does not go on, and until when; null: not known. */
export interface WaitingReason {
  readonly cause: WaitingCause;
  readonly message: string;
  readonly until: Date | null;
}

/** The tool calls of a batch so far, each in one count. */
interface CallCounts {
  /** Succeeded. */
  readonly done: number;
  readonly failed: number;
  /** Interrupted, and perhaps carried out. */
  readonly unknown: number;
  /** Without an outcome: they wait or are under way. */
  readonly open: number;
}

/** The progress of a batch. Times instead of ages: it changes with its rows, not with the clock. */
export interface Progress {
  readonly phase: Phase;
  readonly waiting_reason: WaitingReason | null;
  readonly ended: number;
  readonly total: number;
  /** 100 only when the batch has ended. */
  readonly percent: number;
  /** Over the ten minutes before the last end; null: none has ended, or the last long ago. */
  readonly runs_per_second: number | null;
  readonly calls: CallCounts;
  readonly steps_at_provider: number;
  readonly oldest_step_sent_at: Date | null;
  readonly next_look_at: Date | null;
  readonly eta: { readonly earliest: Date; readonly latest: Date } | null;
}

/** Ends before the first estimate. */
export const ENDS_BEFORE_ETA = 5;
/** Window of the present rate. Unit: minutes. */
export const RATE_WINDOW_MINUTES = 10;
/** Wait of a due row from which no worker seems to run. Workers look every two seconds. Unit: milliseconds. */
export const NO_WORKER_AFTER_MS = 60_000;

/** Derives the progress of a batch. */
export function progressOf(facts: ProgressFacts): Progress {
  const { total, ended, steps_at_provider } = facts;
  const phase = phaseOf(facts);
  const waiting_reason = waitingReasonOf(facts, phase);
  const isSending = steps_at_provider > 0 && phase !== 'done';
  const isMoving = (phase === 'running' || phase === 'waiting_for_provider') && waiting_reason === null;
  return {
    phase,
    waiting_reason,
    ended,
    total,
    percent: phase === 'done' ? 100 : Math.min(99, Math.floor((100 * ended) / Math.max(1, total))),
    runs_per_second: phase === 'done' ? null : presentRate(facts),
    calls: callCountsOf(facts),
    steps_at_provider: isSending ? steps_at_provider : 0,
    oldest_step_sent_at: isSending ? facts.oldest_sent_at : null,
    next_look_at: isSending ? facts.next_look_at : null,
    eta: isMoving ? etaOf(facts) : null,
  };
}

function callCountsOf(facts: ProgressFacts): CallCounts {
  const { tool_calls, ended_tool_calls, failed_tool_calls, unknown_tool_calls } = facts;
  return {
    done: ended_tool_calls - failed_tool_calls,
    failed: failed_tool_calls - unknown_tool_calls,
    unknown: unknown_tool_calls,
    open: tool_calls - ended_tool_calls,
  };
}

const PHASE_OF_STATE = {
  receiving: 'receiving',
  paused: 'paused',
  cancelling: 'cancelling',
  completed: 'done',
  cancelled: 'done',
  failed: 'done',
} as const satisfies Partial<Record<BatchState, Phase>>;

function phaseOf(facts: ProgressFacts): Phase {
  if (facts.state !== 'running') return PHASE_OF_STATE[facts.state];
  const { steps_at_provider, waits_for_room } = facts;
  const moving = inProgress(facts);
  if (steps_at_provider > 0 && (steps_at_provider >= moving || waits_for_room)) return 'waiting_for_provider';
  return moving === 0 && facts.requires_action > 0 ? 'waiting_for_caller' : 'running';
}

/** Runs that are ready, at the provider, or in tool calls. */
function inProgress({ accepted, queued, requires_action, ended }: ProgressFacts): number {
  return Math.max(0, accepted - queued - requires_action - ended);
}

function waitingReasonOf(facts: ProgressFacts, phase: Phase): WaitingReason | null {
  if (phase === 'done') return null;
  if (phase === 'paused') {
    const message = facts.state_reason ?? 'The batch is paused.';
    return { cause: isCapReason(message) ? 'cap' : 'paused', message, until: null };
  }
  const unsent = inProgress(facts) - facts.steps_at_provider;
  if (phase === 'running' && unsent > 0 && facts.credential_pause !== null) {
    const { reason, until } = facts.credential_pause;
    return { cause: 'credential', message: `The credential is paused: ${reason}`, until };
  }
  if (phase === 'running' && inProgress(facts) === 0 && facts.queued > 0) {
    const message = 'The remaining runs wait for conversations that runs of another batch hold.';
    return { cause: 'behind_another_batch', message, until: null };
  }
  if (phase !== 'waiting_for_caller' && lacksWorker(facts)) {
    const message = 'Work has been due for a minute, and no worker has taken it: check that a worker runs.';
    return { cause: 'no_worker', message, until: null };
  }
  if (phase === 'running' && unsent > 0 && facts.steps_at_provider === 0 && facts.retrying >= unsent) {
    const message =
      'The steps of all open runs have failed, and are tried again later; `last_error` and `next_attempt_at` of the runs say ' +
      'why and when.';
    return { cause: 'retrying', message, until: null };
  }
  return null;
}

function lacksWorker({ now, due_since, is_any_leased }: ProgressFacts): boolean {
  return due_since !== null && !is_any_leased && now.getTime() - due_since.getTime() > NO_WORKER_AFTER_MS;
}

/** Runs a second in the window before the last end. */
function windowRate({ last_ended_at, window_from, ended_in_window }: ProgressFacts): number {
  if (last_ended_at === null || window_from === null) return 0;
  return ended_in_window / secondsBetween(window_from, last_ended_at);
}

function presentRate(facts: ProgressFacts): number | null {
  const { now, last_ended_at } = facts;
  if (last_ended_at === null) return null;
  if (now.getTime() - last_ended_at.getTime() > RATE_WINDOW_MINUTES * 60_000) return null;
  return Number(windowRate(facts).toPrecision(3));
}

/**
 * Estimates the end from the rate in the window and the rate since the start, each as of the last end, so that the estimate
 * stays while nothing changes. Fewer ends make the range wider. Null when the latest time has passed: the rates no longer hold.
 */
function etaOf(facts: ProgressFacts): Progress['eta'] {
  const { now, ended, total, last_ended_at, created_at } = facts;
  const remaining = total - ended;
  if (ended < ENDS_BEFORE_ETA || last_ended_at === null || remaining <= 0) return null;
  const rates = [windowRate(facts), ended / secondsBetween(created_at, last_ended_at)].filter(
    (rate) => rate > 0,
  );
  const margin = 1 + 1 / Math.sqrt(ended);
  const at = (rate: number): number => last_ended_at.getTime() + (remaining / rate) * 1_000;
  const latest = ceilSecond(at(Math.min(...rates) / margin));
  if (!(latest > now.getTime()) || latest > TIME_MAX_MS) return null;
  // Not before the present: a time that has passed is no estimate.
  const earliest = Math.max(floorSecond(at(Math.max(...rates) * margin)), ceilSecond(now.getTime()));
  return { earliest: new Date(Math.min(earliest, latest)), latest: new Date(latest) };
}

/** Latest time of a `Date`. Unit: milliseconds. */
const TIME_MAX_MS = 8.64e15;

const floorSecond = (ms: number): number => Math.floor(ms / 1_000) * 1_000;
const ceilSecond = (ms: number): number => Math.ceil(ms / 1_000) * 1_000;

/** At least a second: a shorter time is no measure. */
function secondsBetween(from: Date, to: Date): number {
  return Math.max(1, (to.getTime() - from.getTime()) / 1_000);
}
