import { ATTEMPT_MAX } from '../base/ids.ts';
import { areEchoable, toolUsesOf, type ContentBlock, type ToolUseBlock } from '../model/content.ts';
import { afterCalls } from './after-calls.ts';
import { decideAfterWords, isBlankText, isEmptyAnswer, type WordsDecision } from './after-words.ts';
import type { ToolPolicy } from './tool-policy.ts';
import { decided, messagesOf, type Answered } from './decided.ts';
import {
  cancelledMove,
  completed,
  failed,
  overdueMove,
  type AppendedMessage,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from './decision.ts';
import {
  afterTooLong,
  askedInFull,
  boosted,
  ifCancelling,
  isBoosted,
  isCancelling,
  nextStep,
  unusable,
} from './moves.ts';
import type { StepAnswer } from './step-outcome.ts';
import { NO_TRAIL, type Trail } from './trail.ts';

/** Consecutive suspended answers before the run is given up. */
export const PAUSES_MAX = 10;

type AfterStop = (answered: Answered) => StepDecision;

/** The decision about an answer that may call tools and calls none, by its stop reason. */
const WITHOUT_CALLS: ReadonlyMap<string, AfterStop> = new Map<string, AfterStop>([
  ['tool_use', afterMissingCall],
  ['pause_turn', afterPause],
  ['end_turn', afterEndOfTurn],
  ['stop_sequence', afterEndOfTurn],
]);

/** The decision about an answer by its stop reason. */
const AFTER_STOP: ReadonlyMap<string, AfterStop> = new Map<string, AfterStop>([
  ['refusal', afterRefusedByModel],
  ['max_tokens', afterCutOff],
  ['model_context_window_exceeded', afterWindowExceeded],
  ...[...WITHOUT_CALLS].map(([stop, decide]) => [stop, callsOr(decide)] as const),
]);

/** Returns the calls that a run goes on with; none for another stop reason or unusable calls. */
export function requestedCalls(run: RunFacts, answer: StepAnswer): readonly ToolUseBlock[] {
  const { stop_reason, content } = answer;
  if (run.summarises_to_seq !== null || isCancelling(run)) return [];
  if (stop_reason === null || !WITHOUT_CALLS.has(stop_reason)) return [];
  if (!content.some(isCall)) return [];
  const uses = content.filter(isCall);
  return areEchoable(uses) ? toolUsesOf(uses) : [];
}

/** Decides about an answer of the model. In this order: no stop reason → batch being cancelled → its stop reason. */
export function afterStop(answered: Answered): StepDecision {
  const { run, answer } = answered;
  const { stop_reason } = answer;
  if (stop_reason === null) {
    const error = { type: 'stop_reason', message: 'the answer has no stop reason' };
    return discarded(answered, 'no stop reason', error, ifCancelling(run, unusable(error.message)));
  }
  if (isCancelling(run)) {
    // Paid, so kept; its calls are not carried out, so later requests must not show them.
    return settled(
      answered,
      'answered while the batch is being cancelled',
      standsAlone(answer),
      cancelledMove,
    );
  }
  const decide = AFTER_STOP.get(stop_reason);
  if (decide !== undefined) return decide(answered);
  const message = `The provider ended its answer with '${stop_reason}', which this release does not know.`;
  return settled(answered, 'unknown stop reason', false, failed('provider_error', message));
}

function afterRefusedByModel(answered: Answered): StepDecision {
  return settled(answered, 'refused by the model', false, failed('refusal', 'The model refused to answer.'));
}

/**
 * Decides about a cut-off answer. Below the full limit it is repeated once with all of `max_tokens`. Otherwise cut-off words end
 * the run, and a cut-off call is repeated once with twice the tokens.
 */
function afterCutOff(answered: Answered): StepDecision {
  const { run, answer } = answered;
  if (run.is_answer_limited === true && run.is_overdue !== true && run.attempt < ATTEMPT_MAX) {
    const message = 'cut off at the limit under the cap; sent again with all of max_tokens';
    return discarded(answered, 'cut off under the cap', { type: 'max_tokens', message }, askedInFull(run));
  }
  if (!answer.content.some(isCall)) {
    const move = failed('max_tokens', 'The answer was cut off at max_tokens.');
    return settled(answered, 'cut off', standsAlone(answer), move);
  }
  if (run.is_overdue === true) return settled(answered, 'cut off past the deadline', false, overdueMove);
  if (run.is_at_token_limit === true) {
    const message = 'The answer was cut off inside a tool call, and it can have no more tokens.';
    return settled(answered, 'cut off at the limit', false, failed('max_tokens', message));
  }
  if (isBoosted(run)) {
    const message = 'The answer was cut off inside a tool call, and no further try is left.';
    return settled(answered, 'cut off inside a call again', false, failed('max_tokens', message));
  }
  const message = 'cut off inside a tool call; sent again with doubled max_tokens';
  const error = { type: 'max_tokens', message };
  return discarded(answered, 'cut off inside a call', error, boosted(run));
}

function afterWindowExceeded(answered: Answered): StepDecision {
  const { run, key, answer, toolPolicy } = answered;
  const message = 'The conversation no longer fits the context window of the model.';
  const move = afterTooLong(run, toolPolicy, failed('context_overflow', message));
  if (move.state !== 'ready') return settled(answered, 'context window exceeded', standsAlone(answer), move);
  // Kept, because without messages to summarise the run ends without another answer.
  const error = { type: 'context_overflow', message };
  const said = messagesOf(answered, false);
  return decided(run, key, 'error', 'context window exceeded', { bill: answer, error }, said, move);
}

/** Decides about the answerable calls of an answer; without any, decides by `withoutCalls`. */
function callsOr(withoutCalls: AfterStop): AfterStop {
  return (answered) => {
    if (answered.calls.length > 0) return afterCalls(answered);
    const { content } = answered.answer;
    if (!content.some(isCall)) return withoutCalls(answered);
    if (areEchoable(content.filter(isCall))) throw new Error('The calls of an answer were not planned.');
    const message = 'a tool call has no id of its own, no proper name, or an input that is no object';
    return discarded(answered, 'unanswerable call', { type: 'tool_use', message }, unusable(message));
  };
}

function afterMissingCall(answered: Answered): StepDecision {
  const message = 'The model announced a tool call and made none.';
  return settled(answered, 'announced call is missing', false, failed('provider_error', message));
}

function afterPause(answered: Answered): StepDecision {
  const { run, answer, toolPolicy } = answered;
  if (answer.content.every(isBlankText)) return afterEndOfTurn(answered);
  if (run.step_number >= run.max_steps)
    return settled(answered, 'paused at the step limit', false, pausedAtLimit(toolPolicy));
  if (run.is_overdue === true) return settled(answered, 'paused past the deadline', false, overdueMove);
  const trail = run.trail ?? NO_TRAIL;
  if (trail.pauses >= PAUSES_MAX) {
    const message = `The provider suspended the answer ${PAUSES_MAX + 1} times in a row.`;
    return settled(answered, 'paused too often', false, failed('loop_detected', message));
  }
  const paused = counting(trail, trail.reasks, trail.pauses + 1);
  return settled(answered, 'paused by the provider', true, nextStep(run, paused));
}

function afterEndOfTurn(answered: Answered): StepDecision {
  const { run, answer, toolPolicy } = answered;
  const decision = decideAfterWords(run, answer.content, toolPolicy);
  // The provider refuses empty texts.
  const shown = !isEmptyAnswer(answer.content);
  if (decision.kind === 'reask') return askedAgain(answered, decision, shown);
  const { move, reason } = decision;
  const isStopped = answer.stop_reason === 'stop_sequence' && 'stop_reason' in move;
  const isWordEnd = isStopped && move.stop_reason === 'end_turn';
  return settled(answered, reason, shown, isWordEnd ? { ...move, stop_reason: 'stop_sequence' } : move);
}

/** Sends the model an instruction in the same decision. */
function askedAgain(
  answered: Answered,
  { reason, text }: Extract<WordsDecision, { kind: 'reask' }>,
  shown: boolean,
): StepDecision {
  const { run, key, answer } = answered;
  if (run.is_overdue === true) return settled(answered, 'not done by the deadline', shown, overdueMove);
  const said = messagesOf(answered, shown);
  const asked: AppendedMessage = {
    seq: run.last_seq + said.length + 1,
    role: 'user',
    // The error in a result may name a key of the answer.
    content_json: JSON.stringify([{ type: 'text', text: text.toWellFormed() }]),
    shown: true,
  };
  const trail = run.trail ?? NO_TRAIL;
  const move = nextStep(run, counting(trail, trail.reasks + 1, 0));
  return decided(run, key, 'settle', reason, { bill: answer }, [...said, asked], move);
}

/** Returns the trail with other counts and without the note of a too long prompt. */
function counting({ history, steps, denied, refusal }: Trail, reasks: number, pauses: number): Trail {
  const kept = {
    ...(denied === undefined ? {} : { denied }),
    ...(refusal === undefined ? {} : { refusal }),
  };
  return { history, steps, ...kept, reasks, pauses };
}

/** Applies the answer to the run and ends its step. */
function settled(answered: Answered, reason: string, shown: boolean, move: RunMove): StepDecision {
  const { run, key, answer } = answered;
  return decided(run, key, 'settle', reason, { bill: answer }, messagesOf(answered, shown), move);
}

/** Books a paid but useless answer and hides it from the conversation. */
function discarded(
  { run, key, answer }: Answered,
  reason: string,
  error: { readonly type: string; readonly message: string },
  move: RunMove,
): StepDecision {
  return decided(run, key, 'error', reason, { bill: answer, error }, [], move);
}

function isCall({ type }: ContentBlock): boolean {
  return type === 'tool_use';
}

function pausedAtLimit({ result }: ToolPolicy): RunMove {
  if (result === null) return completed('max_steps');
  return failed('max_steps', 'The run reached its step limit before the model had given its result.');
}

/**
 * Returns whether later requests may show an answer without a reply to it.
 * It has text, calls no tool, was neither refused nor suspended, and ends in text if cut off. The provider refuses a
 * conversation with any other for ever.
 */
function standsAlone({ stop_reason, content }: StepAnswer): boolean {
  if (content.some(isCall) || isEmptyAnswer(content)) return false;
  switch (stop_reason) {
    case 'end_turn':
    case 'stop_sequence':
      return true;
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return content.findLast((block) => !isBlankText(block))?.type === 'text';
    default:
      return false;
  }
}
