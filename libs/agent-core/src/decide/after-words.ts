import { isThought, type ContentBlock } from '../model/content.ts';
import { AUTOMATED_PREFIX, loopAfterWords, REASKS_MAX } from '../rules/loop.ts';
import { FINISH_TOOL } from '../tools/finish.ts';
import type { ToolPolicy, ResultDemand } from './tool-policy.ts';
import { completed, failed, type RunFacts, type RunMove } from './decision.ts';
import { resultOf } from './result-of.ts';
import { NO_TRAIL, withRefusal } from './trail.ts';

/** What an answer without a call does to its run: the end, or what the model is told to go on with. */
export type WordsDecision =
  | { readonly kind: 'end'; readonly reason: string; readonly move: RunMove }
  | { readonly kind: 'reask'; readonly reason: string; readonly text: string };

const EMPTY = `${AUTOMATED_PREFIX}Your last response was empty. Please answer.`;

/** True for a text that says nothing; requests do not show it. */
export function isBlankText({ type, text }: ContentBlock): boolean {
  return type === 'text' && (typeof text !== 'string' || text.trim() === '');
}

/** True for an answer that says nothing: thinking and blank text only, or no block at all. */
export function isEmptyAnswer(content: readonly ContentBlock[]): boolean {
  return content.every((block) => isBlankText(block) || isThought(block));
}

/**
 * Decides about an answer that calls nothing. An empty one is asked for again, unless the run has called tools or
 * been paused before: a model that is done with its work may have nothing to add. Then the tool rules may demand a call. Otherwise it ends the
 * run, with the typed result that the run may owe: one that is missing or does not fit is asked for again, too. The model is asked again {@link REASKS_MAX} times in a row, for whatever reason; then the run ends as
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
 * Of a run that owes a typed result. One that is to be handed over with a call is not in the words, whatever they say: the
 * call was made too early, beside one that the caller did not allow.
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
