import { withCalls, type PastCall, type RuleHistory } from './history.ts';
import type { ToolRule } from './rule.ts';
import { allowedTools, continues, isTerminal, mustForce, uncalledRequired } from './solver.ts';

/** Prefix of automated messages in a conversation. Letta's agents know it. */
export const AUTOMATED_PREFIX = '[This is an automated system message hidden from the user] ';

/** Consecutive repeated requests for a missing call before the run ends. */
export const REASKS_MAX = 3;

/** A call of the answer under decision. */
export interface DecidedCall extends PastCall {
  /** Whether it succeeded. */
  readonly ok: boolean;
  /** Error in the arguments that a rule fixed for this call; null for none. */
  readonly prefill_error: string | null;
}

export interface LoopFacts {
  readonly rules: readonly ToolRule[];
  /** Names of the definition's tools, in its order. */
  readonly available: readonly string[];
  /** Before this answer. */
  readonly history: RuleHistory;
  /** The caller denied a call and none was carried out since, so none is due. */
  readonly denied?: boolean | undefined;
  readonly step_number: number;
  readonly max_steps: number;
}

/** Whether a run goes on after an answer. `reason` is for the log only. */
export type LoopDecision<Reask extends string | null = string | null> =
  | {
      readonly kind: 'continue';
      readonly reason: string;
      /** Text for the model with the next request, after the results or as a message; null for none. */
      readonly reask: Reask;
    }
  | {
      readonly kind: 'stop';
      readonly stop_reason:
        'end_turn' | 'tool_rule' | 'max_steps' | 'no_valid_tools' | 'invalid_request' | 'loop_detected';
      readonly reason: string;
      /** Error for the user; null for success. */
      readonly error: string | null;
    };

/**
 * Decides whether a run goes on after an answer whose `calls`, in order, were carried out or refused.
 * In this order: a rule's own arguments do not fit → end; a terminal tool succeeded and nothing required is missing →
 * end, whatever the other calls; last step → end; no callable tool although a call is due or was tried → end; a
 * terminal tool came too early → on, naming the missing tools; any other call → on.
 */
export function loopAfterCalls(facts: LoopFacts, calls: readonly DecidedCall[]): LoopDecision {
  const { rules, available } = facts;
  const misfit = calls.find(({ prefill_error }) => prefill_error !== null);
  if (misfit !== undefined) {
    const { tool_name, prefill_error } = misfit;
    const error = `The arguments that a tool rule fixes for '${tool_name}' do not fit it: ${prefill_error}`;
    return { kind: 'stop', stop_reason: 'invalid_request', reason: 'prefilled arguments do not fit', error };
  }
  if (rules.length === 0) {
    if (isLastStep(facts)) return stop('max_steps', 'step limit reached');
    return { kind: 'continue', reason: 'results go back to the model', reask: null };
  }
  const history = withCalls(facts.history, calls);
  const missing = uncalledRequired(rules, history, available);
  const ended = calls.find((call) => call.carried_out && call.ok && isTerminal(rules, call.tool_name));
  if (ended !== undefined && missing.length === 0) {
    return stop('tool_rule', `terminal tool ${ended.tool_name} called`);
  }
  if (isLastStep(facts)) return stop('max_steps', 'step limit reached');
  const isStuck = available.length > 0 && allowedTools(rules, history, available).length === 0;
  // Without a due call the model may end in words; after a refused call it is stuck too.
  if (isStuck && (mustForce(rules, history) || !calls.some((call) => call.carried_out))) {
    const after = history.calls.at(-1);
    const error =
      after === undefined
        ? 'The tool rules allow no call at the start.'
        : `The tool rules allow no call after '${after}'.`;
    return { kind: 'stop', stop_reason: 'no_valid_tools', reason: 'the rules allow no tool', error };
  }
  if (ended !== undefined) {
    return {
      kind: 'continue',
      reason: `terminal tool ${ended.tool_name} called before ${missing.join(', ')}`,
      reask: missingText(missing),
    };
  }
  const demanding = calls.find((call) => call.carried_out && continues(rules, call.tool_name));
  const reason =
    demanding === undefined ? 'results go back to the model' : `rule continues after ${demanding.tool_name}`;
  return { kind: 'continue', reason, reask: null };
}

/**
 * Decides whether a run goes on after an answer in words.
 * It ends, unless the rules demand a call, which is asked for again. On the last step an unmet `required_before_exit`
 * does not matter, as in Letta. `reasks` counts the consecutive requests before, at most {@link REASKS_MAX}.
 */
export function loopAfterWords(facts: LoopFacts, reasks: number): LoopDecision<string> {
  const { rules, available, history, denied } = facts;
  if (rules.length === 0) return stop('end_turn', 'answered in words');
  if (denied !== true && mustForce(rules, history)) {
    const allowed = allowedTools(rules, history, available);
    if (allowed.length === 0) {
      const error = 'The tool rules demand a call and allow none.';
      return { kind: 'stop', stop_reason: 'no_valid_tools', reason: 'the rules allow no tool', error };
    }
    if (isLastStep(facts))
      return stop('max_steps', 'step limit reached before the call that the rules demand');
    return reask(reasks, `a call is due: ${allowed.join(', ')}`, forcedText(allowed), oneOf(allowed));
  }
  const missing = uncalledRequired(rules, history, available);
  if (missing.length === 0 || isLastStep(facts)) return stop('end_turn', 'answered in words');
  return reask(reasks, `still to be called: ${missing.join(', ')}`, missingText(missing), missing.join(', '));
}

function reask(reasks: number, reason: string, text: string, owed: string): LoopDecision<string> {
  if (reasks < REASKS_MAX) return { kind: 'continue', reason, reask: text };
  const error = `The model did not call ${owed} as it must, although asked ${REASKS_MAX} times.`;
  return { kind: 'stop', stop_reason: 'loop_detected', reason, error };
}

function isLastStep({ step_number, max_steps }: LoopFacts): boolean {
  return step_number >= max_steps;
}

function stop(
  stopReason: Extract<LoopDecision, { kind: 'stop' }>['stop_reason'],
  reason: string,
): LoopDecision<never> {
  return { kind: 'stop', stop_reason: stopReason, reason, error: null };
}

function missingText(names: readonly string[]): string {
  return `${AUTOMATED_PREFIX}ToolRuleViolated: You must call ${names.join(', ')} at least once to exit the loop.`;
}

function forcedText(names: readonly string[]): string {
  return `${AUTOMATED_PREFIX}ToolRuleViolated: Your next response must call ${oneOf(names)}.`;
}

function oneOf(names: readonly string[]): string {
  const list = names.join(', ');
  return names.length === 1 ? list : `one of these tools: ${list}`;
}
