import { toStorableText } from '../base/json.ts';
import { NO_STEPS, withStep, type LoopCall, type StepPrints } from '../context/loops.ts';
import { keptHistory, NO_HISTORY, withCalls, type PastCall, type RuleHistory } from '../rules/history.ts';
import type { ToolRule } from '../rules/rule.ts';

/**
 * What the next answer of a run is judged by: kept with the run, so that none of its messages has to be read again. It
 * changes with a step that has come to its end alone, so a request that is built anew is the same to the byte.
 */
export interface Trail {
  /** The calls so far as the tool rules count them; empty where there are no rules. */
  readonly history: RuleHistory;
  /** Prints of the last steps, in which loops are looked for. */
  readonly steps: StepPrints;
  /** Answers in a row after which the model was asked again for what it had not given. */
  readonly reasks: number;
  /** Answers in a row that the provider suspended. */
  readonly pauses: number;
  /**
   * The provider has refused the prompt as too long, or found no room for an answer behind it: what the next one shows is
   * summarised first (`refused`), or has been (`summarised`). Gone with the next answer that is applied.
   */
  readonly too_long?: 'refused' | 'summarised';
  /** The caller denied a call, and no later answer had one carried out: until then the rules force none on the model. */
  readonly denied?: true;
  /** What the model was told of the last call that was to hand over the result; for the run's error, should none ever do. */
  readonly refusal?: string;
}

/** The trail of a run that has done nothing yet; stored as null. */
export const NO_TRAIL: Trail = { history: NO_HISTORY, steps: NO_STEPS, reasks: 0, pauses: 0 };

/** A call of a step with what came of it. */
export type TrailCall = LoopCall & Pick<PastCall, 'carried_out'> & { readonly denied?: boolean };

/** The trail after a step whose calls have come to an end, in call order. */
export function afterCallsOf(trail: Trail, rules: readonly ToolRule[], calls: readonly TrailCall[]): Trail {
  const history = rules.length === 0 ? NO_HISTORY : keptHistory(rules, withCalls(trail.history, calls));
  const isStill = !calls.some((call) => call.carried_out);
  const isDenied = calls.some((call) => call.denied === true) || (trail.denied === true && isStill);
  return {
    history,
    steps: withStep(trail.steps, calls),
    reasks: 0,
    pauses: 0,
    ...(isDenied ? { denied: true } : {}),
  };
}

/** Characters of a refusal that are kept. */
const REFUSAL_CHARS_MAX = 500;

/** The trail after calls of which one was to hand over the result and was `refused` so; undefined where none was. */
export function rememberRefusal(trail: Trail, before: Trail, refused: string | undefined): Trail {
  const refusal =
    refused === undefined ? before.refusal : toStorableText(refused.slice(0, REFUSAL_CHARS_MAX));
  return refusal === undefined ? trail : { ...trail, refusal };
}

/** An error with why the result that the model did hand over was not taken. */
export function withRefusal(error: string, { refusal }: Trail): string {
  return refusal === undefined
    ? error
    : `${error} Its last call to hand it over was refused: ${refusal.replace(/\.$/, '')}.`;
}
