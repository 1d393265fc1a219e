import { ATTEMPT_MAX } from '../base/ids.ts';
import type { LastError } from './last-error.ts';
import type { ToolPolicy } from './tool-policy.ts';
import {
  cancelledMove,
  failed,
  overdueMove,
  retryDelayMs,
  type RetryPolicy,
  type RunFacts,
  type RunMove,
} from './decision.ts';
import { NO_TRAIL, type Trail } from './trail.ts';

/** Makes the move to the next step of a run with steps left, to be judged by `trail`. */
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

/** Makes the end of a run whose complete answer can neither be stored nor sent back. */
export function unusable(reason: string): RunMove {
  return failed(
    'unusable_answer',
    `The answer is paid for and cannot be used: ${reason}. It is not asked for again; change the request before you submit it anew.`,
  );
}

/**
 * Decides after a cancelled request. In a batch that is being cancelled it ends the run. Every other cancel comes from the
 * provider's console: the batch is paused, and the step waits for the resume. It counts as no failure.
 */
export function afterForeignCancel(run: RunFacts): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.is_overdue === true) return overdueMove;
  if (run.attempt >= ATTEMPT_MAX) return cancelledMove;
  return { ...readyAgain(run, 0), failures: run.failures };
}

/** Returns whether a cut-off answer must not be repeated: it has been, or attempt numbers are used up. */
export function isBoosted(run: RunFacts): boolean {
  return run.token_boost > 0 || run.attempt >= ATTEMPT_MAX;
}

/** Makes a retry at once with the same `max_tokens`, which counts as no failure. */
export function askedInFull(run: RunFacts): RunMove {
  return { ...readyAgain(run, 0), failures: run.failures };
}

/** Makes a retry at once with twice the tokens, which counts as no failure. */
export function boosted(run: RunFacts): RunMove {
  return { ...readyAgain(run, 0), failures: run.failures, token_boost: run.token_boost + 1 };
}

/**
 * Decides after the model found the prompt too long: it is summarised once and the step retried.
 * Summary requests, and requests after such a summary, have no further retry.
 */
export function afterTooLong(run: RunFacts, { compacts }: ToolPolicy, gaveUp: RunMove): RunMove {
  if (isCancelling(run)) return cancelledMove;
  const trail = run.trail ?? NO_TRAIL;
  const isLost = run.summarises_to_seq !== null || trail.too_long !== undefined || run.attempt >= ATTEMPT_MAX;
  if (!compacts || isLost) return gaveUp;
  if (run.is_overdue === true) return overdueMove;
  return { ...readyAgain(run, 0), failures: run.failures, trail: { ...trail, too_long: 'refused' } };
}

/** Returns the trail of a run after its summary. */
export function summarised(trail: Trail): Trail {
  return trail.too_long === undefined ? trail : { ...trail, too_long: 'summarised' };
}

/**
 * Makes a retry after the outage delay. It counts as no failure until the step has failed for `outage_ms_max`. The step
 * may have failed for other reasons until then, so later attempts count and do not end the run at once.
 */
export function afterOutage(run: RunFacts, policy: RetryPolicy, gaveUp: RunMove, error: LastError): RunMove {
  if ((run.failing_for_ms ?? 0) < policy.outage_ms_max)
    return afterAccountTrouble(run, policy, gaveUp, error);
  const { outage_delay_ms } = policy;
  const slow = { ...policy, retry_delay_ms: outage_delay_ms, retry_delay_ms_max: outage_delay_ms };
  return retryOr(run, slow, gaveUp, error);
}

/**
 * Makes a retry that counts as no failure: the user mends the account, however long it takes. `gaveUp` once attempt numbers
 * are used up, which at the usual delay is most of a day.
 */
export function afterAccountTrouble(
  run: RunFacts,
  policy: RetryPolicy,
  gaveUp: RunMove,
  error: LastError,
): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.attempt >= ATTEMPT_MAX) return gaveUp;
  return { ...readyAgain(run, policy.outage_delay_ms), failures: run.failures, last_error: error };
}

/** Makes a retry after a failure while attempts are left; else `gaveUp`. */
export function retryOr(run: RunFacts, policy: RetryPolicy, gaveUp: RunMove, error: LastError): RunMove {
  if (isCancelling(run)) return cancelledMove;
  if (run.is_overdue === true) return overdueMove;
  if (run.failures + 1 >= policy.attempts_max || run.attempt >= ATTEMPT_MAX) return gaveUp;
  return { ...readyAgain(run, retryDelayMs(policy, run.failures + 1)), last_error: error };
}

/** Returns the end by cancel where run or batch is being cancelled; else `move`. */
export function ifCancelling(run: RunFacts, move: RunMove): RunMove {
  return isCancelling(run) ? cancelledMove : move;
}

/** Returns whether the run, or its batch, is being or was cancelled. */
export function isCancelling({
  batch_state,
  is_cancel_requested = false,
}: Pick<RunFacts, 'batch_state' | 'is_cancel_requested'>): boolean {
  return is_cancel_requested || batch_state === 'cancelling' || batch_state === 'cancelled';
}
