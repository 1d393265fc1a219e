import { ATTEMPT_MAX, type StepKey } from '../base/ids.ts';
import { summaryOf } from '../context/summary.ts';
import { transition } from '../machine/machine.ts';
import { isRunEnded, runMachine, type RunEvent } from '../machine/run.ts';
import { stepMachine, type StepEvent } from '../machine/step.ts';
import { areEchoable, type ContentBlock } from '../model/content.ts';
import { NO_USAGE } from '../model/usage.ts';
import {
  cancelledMove,
  completed,
  failed,
  overdueMove,
  retryDelayMs,
  type AppendedMessage,
  type Refusal,
  type RetryPolicy,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from './decision.ts';
import { decideAfterWords, isBlankText, isEmptyAnswer } from './after-words.ts';
import { NO_CONDUCT, type Conduct } from './conduct.ts';
import type { StepAnswer, StepBill, StepOutcome } from './step-outcome.ts';
import { NO_TRAIL, type Trail } from './trail.ts';

/** Answers in a row that the provider may suspend before the run is given up. */
export const PAUSES_MAX = 10;

/**
 * What one result line does to its run. In order of severity: the run has moved on → no answer or no usable one (try
 * again or end) → the batch is being cancelled → the answer ends the run → the answer goes on.
 *
 * An answer with calls is decided as `acting`; whoever carries the calls out then asks {@link decideAfterTools}. An
 * answer in words may be asked for again in the same decision: see {@link decideAfterWords}.
 */
export function decideAfterAnswer(
  run: RunFacts,
  key: StepKey,
  outcome: StepOutcome,
  policy: RetryPolicy,
  conduct: Conduct = NO_CONDUCT,
): StepDecision | Refusal {
  if (run.state !== 'in_flight') {
    return { kind: 'refuse', key, reason: isRunEnded(run.state) ? 'ended' : 'stale' };
  }
  if (run.step_number !== key.number || run.attempt !== key.attempt)
    return { kind: 'refuse', key, reason: 'stale' };
  if (outcome.kind !== 'answered') return afterNoAnswer(run, key, outcome, policy, conduct);
  return run.summarises_to_seq === null
    ? afterAnswered(run, key, outcome.answer, conduct)
    : afterSummary(run, key, outcome.answer, policy);
}

/**
 * A summary is no message of the conversation, and the step that brought it counts towards no limit. One that was cut off
 * would hide for good what it had not come to: it is asked for once more, with twice the tokens.
 */
function afterSummary(run: RunFacts, key: StepKey, answer: StepAnswer, policy: RetryPolicy): StepDecision {
  const { stop_reason } = answer;
  const hasNoRoom = stop_reason === 'model_context_window_exceeded';
  if (stop_reason === 'max_tokens' || hasNoRoom) {
    const error = { type: 'summary', message: 'the summary was cut off' };
    const gaveUp = failed(
      'context_overflow',
      'The conversation is too long, and its summary did not come to an end.',
    );
    const isLost = hasNoRoom || run.is_at_token_limit === true || run.attempt >= ATTEMPT_MAX;
    const move = isLost ? gaveUp : run.is_overdue === true ? overdueMove : boosted(run);
    return decided(
      run,
      key,
      'error',
      'summary cut off',
      { bill: answer, error },
      [],
      ifCancelling(run, move),
    );
  }
  const isUsable = stop_reason !== null && stop_reason !== 'refusal';
  const summary = isUsable ? summaryOf(answer.content) : null;
  if (summary === null) {
    const error = { type: 'summary', message: 'the answer holds no summary' };
    const gaveUp = failed(
      'context_overflow',
      'The conversation is too long, and the model gave no summary of it.',
    );
    return decided(
      run,
      key,
      'error',
      'no summary',
      { bill: answer, error },
      [],
      retryOr(run, policy, gaveUp),
    );
  }
  const goesOn = run.is_overdue === true ? overdueMove : nextStep(run, summarised(run.trail ?? NO_TRAIL));
  const move = isCancelling(run) ? cancelledMove : goesOn;
  return { ...decided(run, key, 'settle', 'summarised', { bill: answer }, [], move), summary };
}

function afterNoAnswer(
  run: RunFacts,
  key: StepKey,
  outcome: Exclude<StepOutcome, { kind: 'answered' }>,
  policy: RetryPolicy,
  conduct: Conduct,
): StepDecision {
  const bill = 'bill' in outcome ? outcome.bill : null;
  const because = (
    event: StepEvent,
    reason: string,
    error: StepDecision['step']['error'],
    move: RunMove,
  ): StepDecision => decided(run, key, event, reason, { bill, error }, [], move);

  if (outcome.kind === 'canceled') {
    return because('cancel', 'canceled at the provider', null, afterForeignCancel(run));
  }
  if (outcome.kind === 'expired') {
    const move = retryOr(run, policy, { state: 'expired', stop_reason: 'expired', error: null });
    return because('expire', 'expired at the provider', null, move);
  }
  if (outcome.kind === 'missing') {
    const gaveUp = failed('provider_error', 'The provider returned no result for this step.');
    return because('lose', 'no result line', null, retryOr(run, policy, gaveUp));
  }
  if (outcome.kind === 'unfit') {
    const error = { type: 'context_overflow', message: outcome.message };
    const move = failed('context_overflow', outcome.message);
    return because('error', 'does not fit the context window', error, ifCancelling(run, move));
  }
  if (outcome.kind === 'poison') {
    const error = { type: 'poison', message: 'cannot be processed; the log names the cause' };
    const move = failed('poison', 'This step cannot be processed; the operator finds the cause in the log.');
    return because('error', 'poison', error, ifCancelling(run, move));
  }
  if (outcome.kind === 'unusable') {
    const error = { type: 'unusable', message: outcome.reason };
    return because('error', 'unusable answer', error, ifCancelling(run, unusable(outcome.reason)));
  }
  if (outcome.kind === 'unreadable') {
    const error = { type: 'unreadable', message: outcome.reason };
    const gaveUp = failed('provider_error', 'The provider returned a result that could not be read.', {
      last_error: error,
    });
    return because('error', 'unreadable result line', error, retryOr(run, policy, gaveUp));
  }
  const error = { type: outcome.error_type, message: outcome.message };
  if (outcome.error_class === 'permanent') {
    const move = failed('invalid_request', outcome.message, { type: outcome.error_type });
    return because('error', 'refused by the provider', error, ifCancelling(run, move));
  }
  if (outcome.error_class === 'too_long') {
    const move = failed('context_overflow', outcome.message, { type: outcome.error_type });
    return because('error', 'too long for the model', error, afterTooLong(run, conduct, move));
  }
  const gaveUp = failed('provider_error', outcome.message, { type: outcome.error_type });
  if (outcome.error_class === 'outage')
    return because('error', 'an outage of the provider', error, afterOutage(run, policy, gaveUp));
  return because('error', 'failed at the provider', error, retryOr(run, policy, gaveUp));
}

function afterAnswered(run: RunFacts, key: StepKey, answer: StepAnswer, conduct: Conduct): StepDecision {
  const answered = { run, key, answer };
  const calls = answer.content.filter(isCall);
  const isCalling = calls.length > 0;
  if (answer.stop_reason === null) {
    const error = { type: 'stop_reason', message: 'the answer has no stop reason' };
    return discarded(answered, 'no stop reason', error, ifCancelling(run, unusable(error.message)));
  }
  if (isCancelling(run)) {
    // Paid, so kept; its calls are not carried out, so later requests must not show them.
    return applied(
      answered,
      'settle',
      'answered while the batch is being cancelled',
      standsAlone(answer),
      cancelledMove,
    );
  }
  switch (answer.stop_reason) {
    case 'refusal':
      return applied(
        answered,
        'settle',
        'refused by the model',
        false,
        failed('refusal', 'The model refused to answer.'),
      );
    case 'max_tokens': {
      if (!isCalling) {
        const move = failed('max_tokens', 'The answer was cut off at max_tokens.');
        return applied(answered, 'settle', 'cut off', standsAlone(answer), move);
      }
      if (run.is_overdue === true)
        return applied(answered, 'settle', 'cut off past the deadline', false, overdueMove);
      if (run.is_at_token_limit === true) {
        const message = 'The answer was cut off inside a tool call, and it can have no more tokens.';
        return applied(answered, 'settle', 'cut off at the limit', false, failed('max_tokens', message));
      }
      if (isBoosted(run)) {
        const message = 'The answer was cut off inside a tool call, and no further try is left.';
        return applied(
          answered,
          'settle',
          'cut off inside a call again',
          false,
          failed('max_tokens', message),
        );
      }
      const message = 'cut off inside a tool call; sent again with doubled max_tokens';
      const error = { type: 'max_tokens', message };
      return discarded(answered, 'cut off inside a call', error, boosted(run));
    }
    case 'model_context_window_exceeded': {
      const message = 'The conversation no longer fits the context window of the model.';
      const move = afterTooLong(run, conduct, failed('context_overflow', message));
      if (move.state === 'ready') {
        // Kept, for there may be nothing to summarise: then the run ends without another answer.
        const error = { type: 'context_overflow', message };
        const said = messagesOf(answered, false);
        return decided(run, key, 'error', 'context window exceeded', { bill: answer, error }, said, move);
      }
      return applied(answered, 'settle', 'context window exceeded', standsAlone(answer), move);
    }
    case 'pause_turn':
    case 'tool_use':
    case 'end_turn':
    case 'stop_sequence':
      break;
    default: {
      const message = `The provider ended its answer with '${answer.stop_reason}', which this release does not know.`;
      return applied(answered, 'settle', 'unknown stop reason', false, failed('provider_error', message));
    }
  }
  if (!areEchoable(calls)) {
    const message = 'a tool call has no id of its own, no proper name, or an input that is no object';
    const error = { type: 'tool_use', message };
    return discarded(answered, 'unanswerable call', error, unusable(message));
  }
  if (isCalling) return applied(answered, 'answer', 'calls tools', true, { state: 'acting' });
  if (answer.stop_reason === 'tool_use') {
    const message = 'The model announced a tool call and made none.';
    return applied(answered, 'settle', 'announced call is missing', false, failed('provider_error', message));
  }
  const trail = run.trail ?? NO_TRAIL;
  if (answer.stop_reason === 'pause_turn' && !answer.content.every(isBlankText)) {
    if (run.step_number >= run.max_steps)
      return applied(answered, 'settle', 'paused at the step limit', false, pausedAtLimit(conduct));
    if (run.is_overdue === true)
      return applied(answered, 'settle', 'paused past the deadline', false, overdueMove);
    if (trail.pauses >= PAUSES_MAX) {
      const message = `The provider suspended the answer ${PAUSES_MAX + 1} times in a row.`;
      return applied(answered, 'settle', 'paused too often', false, failed('loop_detected', message));
    }
    const paused = counting(trail, trail.reasks, trail.pauses + 1);
    return applied(answered, 'settle', 'paused by the provider', true, nextStep(run, paused));
  }
  const decision = decideAfterWords(run, answer.content, conduct);
  // The provider takes no empty text back.
  const shown = !isEmptyAnswer(answer.content);
  if (decision.kind === 'end') {
    const { move, reason } = decision;
    const stopped = answer.stop_reason === 'stop_sequence' && 'stop_reason' in move;
    const isWordEnd = stopped && move.stop_reason === 'end_turn';
    return applied(
      answered,
      'settle',
      reason,
      shown,
      isWordEnd ? { ...move, stop_reason: 'stop_sequence' } : move,
    );
  }
  if (run.is_overdue === true)
    return applied(answered, 'settle', 'not done by the deadline', shown, overdueMove);
  const said = messagesOf(answered, shown);
  const asked: AppendedMessage = {
    seq: run.last_seq + said.length + 1,
    role: 'user',
    // What is wrong with a result may name a key of the answer.
    content_json: JSON.stringify([{ type: 'text', text: decision.text.toWellFormed() }]),
    shown: true,
  };
  const move = nextStep(run, counting(trail, trail.reasks + 1, 0));
  return decided(run, key, 'settle', decision.reason, { bill: answer }, [...said, asked], move);
}

/** An answer, and whose it is. */
interface Answered {
  readonly run: RunFacts;
  readonly key: StepKey;
  readonly answer: StepAnswer;
}

/** The trail with other counts, and without what was noted of a prompt that was too long. */
function counting({ history, steps, denied, refusal }: Trail, reasks: number, pauses: number): Trail {
  const kept = {
    ...(denied === undefined ? {} : { denied }),
    ...(refusal === undefined ? {} : { refusal }),
  };
  return { history, steps, ...kept, reasks, pauses };
}

function applied(
  answered: Answered,
  event: StepEvent,
  reason: string,
  shown: boolean,
  move: RunMove,
): StepDecision {
  const { run, key, answer } = answered;
  return decided(run, key, event, reason, { bill: answer }, messagesOf(answered, shown), move);
}

/** Paid and of no use: booked, and kept out of the conversation. */
function discarded(
  { run, key, answer }: Answered,
  reason: string,
  error: { readonly type: string; readonly message: string },
  move: RunMove,
): StepDecision {
  return decided(run, key, 'error', reason, { bill: answer, error }, [], move);
}

function messagesOf({ run, answer }: Answered, shown: boolean): readonly AppendedMessage[] {
  if (answer.content.length === 0) return [];
  return [{ seq: run.last_seq + 1, role: 'assistant', content_json: answer.content_json, shown }];
}

function isCall({ type }: ContentBlock): boolean {
  return type === 'tool_use';
}

function pausedAtLimit({ result }: Conduct): RunMove {
  if (result === null) return completed('max_steps');
  return failed('max_steps', 'The run reached its step limit before the model had given its result.');
}

/**
 * True for an answer that a later request may show although nothing answers it: it says something, calls no tool, was
 * neither refused nor suspended, and, where it was cut off, ends in text. The provider refuses a conversation that holds any other for
 * as long as it lives.
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

/** The decision for an answer some of whose calls only the caller can answer: its run waits for that. */
export function awaitingCaller(run: Pick<RunFacts, 'state'>, decision: StepDecision): StepDecision {
  transition(runMachine, run.state, EVENT_OF_MOVE.requires_action);
  return { ...decision, reason: 'waits for the caller', run: { state: 'requires_action' } };
}

/** The move to the next step of a run that has steps left, to be judged by `trail`. */
export function nextStep(run: Pick<RunFacts, 'step_number'>, trail: Trail): RunMove {
  return {
    state: 'ready',
    step_number: run.step_number + 1,
    attempt: 1,
    failures: 0,
    token_boost: 0,
    delay_ms: 0,
    trail,
  };
}

function readyAgain(run: RunFacts, delayMs: number): Extract<RunMove, { state: 'ready' }> {
  return {
    state: 'ready',
    step_number: run.step_number,
    attempt: run.attempt + 1,
    failures: run.failures + 1,
    token_boost: run.token_boost,
    delay_ms: delayMs,
  };
}

/** The end of a run whose answer came whole and can neither be stored nor sent back. */
function unusable(reason: string): RunMove {
  return failed(
    'unusable_answer',
    `The answer is paid for and cannot be used: ${reason}. It is not asked for again; change the request before you submit it anew.`,
  );
}

/**
 * A cancel of ours ends the runs, for only provider batches of batches that are being cancelled are cancelled. Any other is
 * somebody's at the provider: its batch is paused, and the step waits for the resume. It counts as no failure.
 */
function afterForeignCancel(run: RunFacts): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.is_overdue === true) return overdueMove;
  if (run.attempt >= ATTEMPT_MAX) return cancelledMove;
  return { ...readyAgain(run, 0), failures: run.failures };
}

/** Whether an answer that was cut off is not asked for again: it has been, or no attempt can be numbered. */
function isBoosted(run: RunFacts): boolean {
  return run.token_boost > 0 || run.attempt >= ATTEMPT_MAX;
}

/** Again at once with twice the tokens, which counts as no failure. */
function boosted(run: RunFacts): RunMove {
  return { ...readyAgain(run, 0), failures: run.failures, token_boost: run.token_boost + 1 };
}

/**
 * The model knows its limit better than our estimate: what was said is summarised, once, and the step tried again. A
 * request for a summary, and one that shows a summary made for this, has nothing left to try.
 */
function afterTooLong(run: RunFacts, { compacts }: Conduct, gaveUp: RunMove): RunMove {
  if (isCancelling(run)) return cancelledMove;
  const trail = run.trail ?? NO_TRAIL;
  const isLost = run.summarises_to_seq !== null || trail.too_long !== undefined || run.attempt >= ATTEMPT_MAX;
  if (!compacts || isLost) return gaveUp;
  if (run.is_overdue === true) return overdueMove;
  return { ...readyAgain(run, 0), failures: run.failures, trail: { ...trail, too_long: 'refused' } };
}

function summarised(trail: Trail): Trail {
  return trail.too_long === undefined ? trail : { ...trail, too_long: 'summarised' };
}

/** Tried again for as long as attempts can be numbered, which at the usual delay is most of a day. */
function afterOutage(run: RunFacts, policy: RetryPolicy, gaveUp: RunMove): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.attempt >= ATTEMPT_MAX) return gaveUp;
  return { ...readyAgain(run, policy.outage_delay_ms), failures: run.failures };
}

function retryOr(run: RunFacts, policy: RetryPolicy, gaveUp: RunMove): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.is_overdue === true) return overdueMove;
  if (run.failures + 1 >= policy.attempts_max || run.attempt >= ATTEMPT_MAX) return gaveUp;
  return readyAgain(run, retryDelayMs(policy, run.failures + 1));
}

function ifCancelling(run: RunFacts, move: RunMove): RunMove {
  return isCancelling(run) ? cancelledMove : move;
}

function isCancelling(run: RunFacts): boolean {
  return run.batch_state === 'cancelling' || run.batch_state === 'cancelled';
}

const EVENT_OF_MOVE: Readonly<Record<RunMove['state'], RunEvent>> = {
  ready: 'continue',
  acting: 'act',
  requires_action: 'await_caller',
  completed: 'complete',
  failed: 'fail',
  cancelled: 'cancel',
  expired: 'expire',
};

function decided(
  run: RunFacts,
  key: StepKey,
  event: StepEvent,
  reason: string,
  what: { bill: StepBill | null; error?: StepDecision['step']['error'] },
  messages: readonly AppendedMessage[],
  move: RunMove,
): StepDecision {
  const state = transition(stepMachine, 'sealed', event);
  transition(runMachine, run.state, EVENT_OF_MOVE[move.state]);
  const { bill } = what;
  return {
    kind: 'apply',
    key,
    reason,
    step: {
      from: 'sealed',
      state,
      applies: event === 'answer' || event === 'settle',
      stop_reason: bill?.stop_reason ?? null,
      error: what.error ?? null,
      usage: bill?.usage ?? NO_USAGE,
      cost_nanousd: bill === null ? 0 : bill.cost_nanousd,
      message_id: bill?.message_id ?? null,
      model: bill?.model ?? null,
    },
    messages,
    summary: null,
    run: move,
  };
}
