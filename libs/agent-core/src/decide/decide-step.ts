import { ATTEMPT_MAX, type StepKey } from '../base/ids.ts';
import { summaryOf } from '../context/summary.ts';
import { isRunEnded } from '../machine/run.ts';
import type { StepEvent } from '../machine/step.ts';
import type { ToolUseBlock } from '../model/content.ts';
import type { StepMemory } from '../model/tool-call.ts';
import { afterStop, requestedCalls } from './after-stop.ts';
import { decided } from './decided.ts';
import {
  cancelledMove,
  failed,
  overdueMove,
  type Refusal,
  type RetryPolicy,
  type RunFacts,
  type RunMove,
  type StepDecision,
} from './decision.ts';
import { lastError } from './last-error.ts';
import {
  afterAccountTrouble,
  afterForeignCancel,
  afterOutage,
  afterTooLong,
  boosted,
  ifCancelling,
  isCancelling,
  nextStep,
  retryOr,
  summarised,
  unusable,
} from './moves.ts';
import { NO_MEMORY, type StepCall } from './step-calls.ts';
import type { StepAnswer, StepOutcome } from './step-outcome.ts';
import { NO_TOOL_POLICY, type ToolPolicy } from './tool-policy.ts';
import { NO_TRAIL } from './trail.ts';

/** Facts for a decision about a step. */
export interface StepFacts {
  readonly run: RunFacts;
  readonly key: StepKey;
  readonly retry: RetryPolicy;
  readonly toolPolicy?: ToolPolicy;
  /**
   * The planned calls of {@link callsToPlan}; each with its outcome if it has ended.
   * Default: none.
   */
  readonly calls?: readonly StepCall[];
}

const NO_CALLS: readonly StepCall[] = [];

/**
 * Decides about a step by its outcome at the provider: a move of its run, messages, calls and memory changes.
 * By severity: run has moved on → no usable answer (retry or end) → batch being cancelled → the answer ends the run →
 * the run goes on.
 * Memory calls are carried out on `memory`. Without other open calls, the run goes on in the same decision.
 */
export function decideStep(
  { run, key, retry, toolPolicy = NO_TOOL_POLICY, calls = NO_CALLS }: StepFacts,
  outcome: StepOutcome,
  memory: StepMemory = NO_MEMORY,
): StepDecision | Refusal {
  if (!isAwaited(run, key)) return { kind: 'refuse', key, reason: isRunEnded(run.state) ? 'ended' : 'stale' };
  if (outcome.kind !== 'answered') return afterNoAnswer(run, key, outcome, retry, toolPolicy);
  return run.summarises_to_seq === null
    ? afterStop({ run, key, answer: outcome.answer, toolPolicy, calls, memory })
    : afterSummary(run, key, outcome.answer, retry);
}

/** Returns the calls that a step goes on with, to be planned before {@link decideStep}. */
export function callsToPlan(run: RunFacts, key: StepKey, outcome: StepOutcome): readonly ToolUseBlock[] {
  return outcome.kind === 'answered' && isAwaited(run, key) ? requestedCalls(run, outcome.answer) : [];
}

/** Returns whether the run waits for this attempt of this step. */
export function isAwaited(run: RunFacts, { number, attempt }: StepKey): boolean {
  return run.state === 'in_flight' && run.step_number === number && run.attempt === attempt;
}

/**
 * Decides about the answer to a summary request, whose step counts towards no limit.
 * A cut-off summary would lose the rest for good, so it is repeated once with twice the tokens.
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
      retryOr(run, policy, gaveUp, error),
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
  toolPolicy: ToolPolicy,
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
    const last = lastError('expired', 'The provider did not get to the request in time.');
    const move = retryOr(run, policy, { state: 'expired', stop_reason: 'expired', error: null }, last);
    return because('expire', 'expired at the provider', null, move);
  }
  if (outcome.kind === 'missing') {
    const gaveUp = failed('provider_error', 'The provider returned no result for this step.');
    const last = lastError('missing', 'The provider returned no result for this step.');
    return because('lose', 'no result line', null, retryOr(run, policy, gaveUp, last));
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
    const last = lastError(error.type, error.message);
    return because('error', 'unreadable result line', error, retryOr(run, policy, gaveUp, last));
  }
  const error = { type: outcome.error_type, message: outcome.message };
  if (outcome.error_class === 'permanent') {
    const move = failed('invalid_request', outcome.message, { type: outcome.error_type });
    return because('error', 'refused by the provider', error, ifCancelling(run, move));
  }
  if (outcome.error_class === 'too_long') {
    const move = failed('context_overflow', outcome.message, { type: outcome.error_type });
    return because('error', 'too long for the model', error, afterTooLong(run, toolPolicy, move));
  }
  const gaveUp = failed('provider_error', outcome.message, { type: outcome.error_type });
  const last = lastError(error.type, error.message);
  if (outcome.error_class === 'account')
    return because(
      'error',
      'trouble with the account',
      error,
      afterAccountTrouble(run, policy, gaveUp, last),
    );
  if (outcome.error_class === 'outage')
    return because('error', 'an outage of the provider', error, afterOutage(run, policy, gaveUp, last));
  return because('error', 'failed at the provider', error, retryOr(run, policy, gaveUp, last));
}
