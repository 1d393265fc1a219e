import type { StepKey } from '../base/ids.ts';
import type { Json, JsonObject } from '../base/json.ts';
import type { BatchState } from '../machine/batch.ts';
import type { RunState, StopReason } from '../machine/run.ts';
import type { StepState } from '../machine/step.ts';
import type { BlockChange } from '../model/block-change.ts';
import type { NewToolCall } from '../model/tool-call.ts';
import type { Usage } from '../model/usage.ts';
import type { LastError } from './last-error.ts';
import type { Trail } from './trail.ts';

/** Facts about a run for decisions: its row and the state of its batch. */
export interface RunFacts {
  readonly id: string;
  readonly batch_state: BatchState;
  readonly state: RunState;
  readonly step_number: number;
  readonly attempt: number;
  /** Failed attempts of this step number. An attempt that was never accepted does not count. */
  readonly failures: number;
  /**
   * Time since the step first failed; null if it has not failed.
   * Default: null.
   * Unit: milliseconds.
   */
  readonly failing_for_ms?: number | null;
  /** Maximum number of steps, summary steps included. */
  readonly max_steps: number;
  readonly token_boost: number;
  readonly last_seq: number;
  /** Null for a run without a step. */
  readonly trail: Trail | null;
  /** Last message that the current step summarises; null for an ordinary step. */
  readonly summarises_to_seq: number | null;
  /**
   * The current step has the most tokens possible; for a summary, twice those of a cut-off summary.
   * Default: false.
   */
  readonly is_at_token_limit?: boolean;
  /**
   * The current step had fewer tokens than `max_tokens`, by what such steps wrote, because its batch has a cap.
   * Default: false.
   */
  readonly is_answer_limited?: boolean;
  /**
   * Its deadline has passed, so it takes no further step.
   * Default: false.
   */
  readonly is_overdue?: boolean;
  /**
   * The caller cancels this run alone.
   * Default: false.
   */
  readonly is_cancel_requested?: boolean;
}

/** Limits of retries. */
export interface RetryPolicy {
  /** Failed attempts of a step number before the run ends. */
  readonly attempts_max: number;
  /**
   * Delay after the first failure; doubled for each further failure.
   * Unit: milliseconds.
   */
  readonly retry_delay_ms: number;
  /**
   * Maximum retry delay.
   * Unit: milliseconds.
   */
  readonly retry_delay_ms_max: number;
  /**
   * Delay after an attempt lost to a provider outage, which counts as no failure before `outage_ms_max`.
   * Unit: milliseconds.
   */
  readonly outage_delay_ms: number;
  /**
   * Time after the first failure of a step, of any kind, from which an attempt lost to an outage counts as a failure.
   * Unit: milliseconds.
   */
  readonly outage_ms_max: number;
}

export const RETRY_POLICY_DEFAULT: RetryPolicy = {
  attempts_max: 4,
  retry_delay_ms: 5_000,
  retry_delay_ms_max: 600_000,
  outage_delay_ms: 300_000,
  outage_ms_max: 7_200_000,
};

/** A message to append to the run's conversation. */
export interface AppendedMessage {
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  /** JSON text of a content array. */
  readonly content_json: string;
  /** False for messages that later requests must not show. */
  readonly shown: boolean;
}

/** A move of a run: the target state and its required fields. */
export type RunMove =
  | {
      readonly state: 'ready';
      readonly step_number: number;
      readonly attempt: number;
      readonly failures: number;
      readonly token_boost: number;
      readonly delay_ms: number;
      /** Default: unchanged. */
      readonly trail?: Trail;
      /**
       * The failure after which the step is tried again.
       * Default: the attempt did not fail.
       */
      readonly last_error?: LastError;
    }
  | { readonly state: 'acting' }
  | { readonly state: 'requires_action' }
  | {
      readonly state: EndedState;
      readonly stop_reason: StopReason;
      readonly error: JsonObject | null;
      /**
       * The run's result.
       * Default: none.
       */
      readonly result?: Json;
    };

type EndedState = Extract<RunState, 'completed' | 'failed' | 'cancelled' | 'expired'>;

/** Rows to write for a step and its run, and their expected states. */
export interface StepDecision {
  readonly kind: 'apply';
  readonly key: StepKey;
  /** For the log. */
  readonly reason: string;
  readonly step: {
    readonly from: StepState;
    readonly state: StepState;
    /** True where an answer becomes part of the run, at most once per step number. */
    readonly applies: boolean;
    readonly stop_reason: string | null;
    readonly error: JsonObject | null;
    readonly usage: Usage;
    /** Null for an answer of a model without a price. */
    readonly cost_nanousd: number | null;
    readonly message_id: string | null;
    readonly model: string | null;
  };
  /** For an attempt that is not applied: messages kept without a step. */
  readonly messages: readonly AppendedMessage[];
  /** The calls of the answer. */
  readonly calls: readonly NewToolCall[];
  /** Memory changes of the calls carried out, in order. */
  readonly changes: readonly BlockChange[];
  /** Replacement for the messages that the step has summarised. */
  readonly summary: string | null;
  readonly run: RunMove;
}

/** Nothing is written: the run has moved on without this line. */
export interface Refusal {
  readonly kind: 'refuse';
  readonly key: StepKey;
  readonly reason: 'stale' | 'ended';
}

/** Makes the move that ends a run with success, with its result if any. */
export function completed(stopReason: StopReason, result?: Json): RunMove {
  const ended = { state: 'completed', stop_reason: stopReason, error: null } as const;
  return result === undefined ? ended : { ...ended, result };
}

/** Makes the move that ends a run without success; `message` is for the user, without provider internals. */
export function failed(stopReason: StopReason, message: string, detail: JsonObject = {}): RunMove {
  return { state: 'failed', stop_reason: stopReason, error: { message, ...detail } };
}

/** The move of a run whose batch is being cancelled. */
export const cancelledMove: RunMove = { state: 'cancelled', stop_reason: 'cancelled', error: null };

/** The move of a run past its deadline that would otherwise go on. */
export const overdueMove: RunMove = failed('deadline', 'The run passed its deadline before it was done.');

/**
 * Returns the delay after the `failures`-th failed attempt of a step.
 * Unit: milliseconds.
 */
export function retryDelayMs(policy: RetryPolicy, failures: number): number {
  return Math.min(policy.retry_delay_ms_max, policy.retry_delay_ms * 2 ** Math.max(0, failures - 1));
}
