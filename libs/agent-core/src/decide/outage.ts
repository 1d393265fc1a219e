import type { StepOutcome } from './step-outcome.ts';

/** Lines of one model, counted as evidence for and against an outage. */
export interface OutageEvidence {
  readonly lines: number;
  readonly answered: number;
  /** Lines of requests whose step had not failed before. */
  readonly fresh: number;
  /** Fresh lines with an error that may pass. */
  readonly fresh_failed: number;
  /** Of these, lines that name an overload. */
  readonly fresh_overloaded: number;
}

export const NO_EVIDENCE: OutageEvidence = {
  lines: 0,
  answered: 0,
  fresh: 0,
  fresh_failed: 0,
  fresh_overloaded: 0,
};

/** Fewest fresh lines that can prove an outage with errors that do not name an overload. */
const FRESH_LINES_MIN = 10;
/** Minimum share of failed lines. */
const OUTAGE_SHARE = 0.8;

/** Adds evidence up. */
export function addEvidence(one: OutageEvidence, other: OutageEvidence): OutageEvidence {
  return {
    lines: one.lines + other.lines,
    answered: one.answered + other.answered,
    fresh: one.fresh + other.fresh,
    fresh_failed: one.fresh_failed + other.fresh_failed,
    fresh_overloaded: one.fresh_overloaded + other.fresh_overloaded,
  };
}

/** Counts a line as evidence. */
export function evidenceOfLine(outcome: StepOutcome, isFresh: boolean): OutageEvidence {
  return {
    lines: 1,
    answered: outcome.kind === 'answered' ? 1 : 0,
    fresh: isFresh ? 1 : 0,
    fresh_failed: isFresh && mayPass(outcome) ? 1 : 0,
    fresh_overloaded: isFresh && isOverload(outcome) ? 1 : 0,
  };
}

/** Returns whether an outcome is an error of the provider that a retry may not meet again. */
export function mayPass(outcome: StepOutcome): boolean {
  return (
    isOverload(outcome) ||
    (outcome.kind === 'errored' && (outcome.error_class === 'retryable' || outcome.error_class === 'outage'))
  );
}

function isOverload(outcome: StepOutcome): boolean {
  return outcome.kind === 'errored' && outcome.error_class === 'overloaded';
}

/**
 * Judges whether the provider fails nearly all requests of a model.
 * Answers to more than a fifth of the lines, retried or not, outvote any failures. Only fresh lines prove an outage: a file
 * of retries holds nothing but requests that have failed. An error may be the fault of a few requests, so it needs many
 * lines; an overload is never their fault.
 * Null: the lines prove nothing.
 */
export function judgeOutage(evidence: OutageEvidence): 'outage' | 'over' | null {
  const { lines, answered, fresh, fresh_failed, fresh_overloaded } = evidence;
  if (lines - answered < lines * OUTAGE_SHARE) return 'over';
  const isOverloaded = fresh > 0 && fresh_overloaded >= fresh * OUTAGE_SHARE;
  const isFailing = fresh >= FRESH_LINES_MIN && fresh_failed >= fresh * OUTAGE_SHARE;
  return isOverloaded || isFailing ? 'outage' : null;
}
