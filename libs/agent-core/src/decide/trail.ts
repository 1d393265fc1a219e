import { toStorableText } from '../base/json.ts';
import { NO_STEPS, withStep, type LoopCall, type StepPrints } from '../context/loops.ts';
import { keptHistory, NO_HISTORY, withCalls, type PastCall, type RuleHistory } from '../rules/history.ts';
import type { ToolRule } from '../rules/rule.ts';

/**
 * Facts that a run's next answer is judged by, stored with the run so that no message is read again.
 * It changes only when a step ends, so a rebuilt request has the same bytes.
 */
export interface Trail {
  /** The calls that the tool rules count; empty without rules. */
  readonly history: RuleHistory;
  /** Prints of the last steps, for loop detection. */
  readonly steps: StepPrints;
  /** Consecutive answers after which the model was asked again. */
  readonly reasks: number;
  /** Consecutive answers that the provider suspended. */
  readonly pauses: number;
  /**
   * The provider found the prompt too long, or without room for an answer.
   * Its messages are to be summarised (`refused`) or have been (`summarised`). Cleared by the next applied answer.
   */
  readonly too_long?: 'refused' | 'summarised';
  /** The caller denied a call, and none was carried out since: until then the rules force none. */
  readonly denied?: true;
  /** The last refusal of a delivered result, for the run's error if none is accepted. */
  readonly refusal?: string;
}

/** The trail of a run without a step; stored as null. */
export const NO_TRAIL: Trail = { history: NO_HISTORY, steps: NO_STEPS, reasks: 0, pauses: 0 };

/** A call of a step with its outcome. */
export type TrailCall = LoopCall & Pick<PastCall, 'carried_out'> & { readonly denied?: boolean };

/** Returns the trail after the ended calls of a step, in order. */
export function afterCallsOf(trail: Trail, rules: readonly ToolRule[], calls: readonly TrailCall[]): Trail {
  return {
    ...ruleTrailAfter(trail, rules, calls),
    steps: withStep(trail.steps, calls),
    reasks: 0,
    pauses: 0,
  };
}

/** The part of a trail that tool rules read. */
type RuleTrail = Pick<Trail, 'history' | 'denied'>;
type RuledCall = PastCall & Pick<TrailCall, 'denied'>;

function ruleTrailAfter(
  trail: RuleTrail,
  rules: readonly ToolRule[],
  calls: readonly RuledCall[],
): RuleTrail {
  const history = rules.length === 0 ? NO_HISTORY : keptHistory(rules, withCalls(trail.history, calls));
  const isStill = !calls.some((call) => call.carried_out);
  const isDenied = calls.some((call) => call.denied === true) || (trail.denied === true && isStill);
  return { history, ...(isDenied ? { denied: true } : {}) };
}

/** Returns the trail of a run as far as tool rules read it, from the ended calls of each of its steps. */
export function ruleTrailOf(rules: readonly ToolRule[], steps: Iterable<readonly RuledCall[]>): Trail {
  let trail = NO_TRAIL;
  for (const calls of steps) trail = { ...NO_TRAIL, ...ruleTrailAfter(trail, rules, calls) };
  return trail;
}

/** Characters kept of a refusal. */
const REFUSAL_CHARS_MAX = 500;

/** Returns the trail with the error of a refused result; `refused` is undefined where none was. */
export function rememberRefusal(trail: Trail, before: Trail, refused: string | undefined): Trail {
  const refusal =
    refused === undefined ? before.refusal : toStorableText(refused.slice(0, REFUSAL_CHARS_MAX));
  return refusal === undefined ? trail : { ...trail, refusal };
}

/** Adds the reason why the delivered result was refused to an error. */
export function withRefusal(error: string, { refusal }: Trail): string {
  return refusal === undefined
    ? error
    : `${error} Its last call to hand it over was refused: ${refusal.replace(/\.$/, '')}.`;
}
