import { isThought, type ContentBlock } from '../model/content.ts';
import { AUTOMATED_PREFIX, loopAfterWords, REASKS_MAX } from '../rules/loop.ts';
import { FINISH_TOOL } from '../tools/finish.ts';
import type { ToolPolicy, ResultDemand } from './tool-policy.ts';
import { completed, failed, type RunFacts, type RunMove } from './decision.ts';
import { resultOf } from './result-of.ts';
import { NO_TRAIL, withRefusal } from './trail.ts';

/** Effect of an answer without calls: the end of the run, or the text to continue with. */
export type WordsDecision =
  | { readonly kind: 'end'; readonly reason: string; readonly move: RunMove }
  | { readonly kind: 'reask'; readonly reason: string; readonly text: string };

const EMPTY = `${AUTOMATED_PREFIX}Your last response was empty. Please answer.`;

/** Returns whether a text is blank; requests do not show it. */
export function isBlankText({ type, text }: ContentBlock): boolean {
  return type === 'text' && (typeof text !== 'string' || text.trim() === '');
}

/** Returns whether an answer is empty: only thinking and blank text, or no block. */
export function isEmptyAnswer(content: readonly ContentBlock[]): boolean {
  return content.every((block) => isBlankText(block) || isThought(block));
}

/**
 * Decides about an answer without calls.
 * An empty answer is asked for again, unless the run has called tools or been paused: a finished model may have nothing
 * to add. Then the tool rules may demand a call. Otherwise it ends the run with its typed result, if required; a
 * missing or invalid result is asked for again. After {@link REASKS_MAX} such requests in a row, the run ends as
 * `loop_detected`.
 */
export function decideAfterWords(
  run: Pick<RunFacts, 'step_number' | 'max_steps' | 'trail'>,
  content: readonly ContentBlock[],
  toolPolicy: ToolPolicy,
): WordsDecision {
  const trail = run.trail ?? NO_TRAIL;
  const mayBeDone = trail.steps.prints.length > 0 || trail.pauses > 0;
  if (!mayBeDone && isEmptyAnswer(content)) {
    if (trail.reasks >= REASKS_MAX) {
      const message = `The model answered with nothing, although asked again ${REASKS_MAX} times.`;
      return { kind: 'end', reason: 'empty answers', move: failed('loop_detected', message) };
    }
    if (run.step_number >= run.max_steps) {
      const message = 'The model answered with nothing on the last step of the run.';
      return { kind: 'end', reason: 'empty answer at the step limit', move: failed('max_steps', message) };
    }
    return { kind: 'reask', reason: 'empty answer', text: EMPTY };
  }
  const { history, reasks, denied } = trail;
  const { rules, available } = toolPolicy;
  const { step_number, max_steps } = run;
  const facts = { rules, available, history, denied, step_number, max_steps };
  const decision = loopAfterWords(facts, reasks);
  if (decision.kind === 'stop') {
    if (toolPolicy.result !== null && decision.error === null)
      return afterResult(run, content, toolPolicy.result);
    const { stop_reason, reason, error } = decision;
    return {
      kind: 'end',
      reason,
      move: error === null ? completed(stop_reason) : failed(stop_reason, withRefusal(error, trail)),
    };
  }
  return { kind: 'reask', reason: decision.reason, text: decision.reask };
}

/**
 * Decides about a run that requires a typed result. Words never hold a result that needs a call, whatever they say.
 * That call was made too early, beside a call that the caller denied.
 */
function afterResult(
  run: Pick<RunFacts, 'step_number' | 'max_steps' | 'trail'>,
  content: readonly ContentBlock[],
  demand: ResultDemand,
): WordsDecision {
  const trail = run.trail ?? NO_TRAIL;
  const read =
    demand.by === 'answer' ? resultOf(content, demand) : { ok: false as const, message: 'there is none' };
  if (read.ok)
    return { kind: 'end', reason: 'answered with its result', move: completed('end_turn', read.result) };
  if (run.step_number >= run.max_steps) {
    const message = `The run reached its step limit without a result of its schema: ${read.message}.`;
    return {
      kind: 'end',
      reason: 'no result at the step limit',
      move: failed('max_steps', withRefusal(message, trail)),
    };
  }
  if (trail.reasks >= REASKS_MAX) {
    const message = `The model gave no result of its schema, although asked again ${REASKS_MAX} times: ${read.message}.`;
    return { kind: 'end', reason: 'no result', move: failed('loop_detected', message) };
  }
  const asked =
    demand.by === 'answer'
      ? `Your answer is not the JSON that was asked for: ${read.message}. Answer with it and nothing else.`
      : `Your result has not been handed over: call ${FINISH_TOOL.name} with it.`;
  return { kind: 'reask', reason: 'the result does not fit', text: `${AUTOMATED_PREFIX}${asked}` };
}
