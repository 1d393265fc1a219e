import type { StepKey } from '../base/ids.ts';
import type { Json, JsonObject } from '../base/json.ts';
import type { BatchState } from '../machine/batch.ts';
import type { RunState, StopReason } from '../machine/run.ts';
import type { StepState } from '../machine/step.ts';
import type { BlockChange } from '../model/block-change.ts';
import type { NewToolCall } from '../model/tool-call.ts';
import type { Usage } from '../model/usage.ts';
import type { Trail } from './trail.ts';

/** What deciding needs to know of a run: its row, and the state of its batch. */
export interface RunFacts {
  readonly id: string;
  readonly batch_state: BatchState;
  readonly state: RunState;
  readonly step_number: number;
  readonly attempt: number;
  /** Attempts of this step number that failed; an attempt that was never accepted is not one. */
  readonly failures: number;
  /** Steps that it may take, with those that have summarised. */
  readonly max_steps: number;
  readonly token_boost: number;
  readonly last_seq: number;
  /** Null for a run that has done nothing yet. */
  readonly trail: Trail | null;
  /** The last message that the step under way summarises; null where it is an ordinary one. */
  readonly summarises_to_seq: number | null;
  /** Its step under way has the most tokens that it can have: for a summary, twice those of one cut off. Default false. */
  readonly is_at_token_limit?: boolean;
  /** Its deadline has passed: it takes no further step. Default false. */
  readonly is_overdue?: boolean;
}

/** Limits that decisions follow. */
export interface RetryPolicy {
  /** Failed attempts of one step number at which the run ends. */
  readonly attempts_max: number;
  /** Milliseconds to wait after the first failure; doubled for each further one. */
  readonly retry_delay_ms: number;
  /** Milliseconds a retry waits at most. */
  readonly retry_delay_ms_max: number;
  /** Milliseconds to wait after an attempt that an outage of the provider took; it counts as no failure. */
  readonly outage_delay_ms: number;
}

export const RETRY_POLICY_DEFAULT: RetryPolicy = {
  attempts_max: 4,
  retry_delay_ms: 5_000,
  retry_delay_ms_max: 600_000,
  outage_delay_ms: 300_000,
};

/** A message to append to the run's conversation. */
export interface AppendedMessage {
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  /** JSON text of a content array. */
  readonly content_json: string;
  /** False for what later requests must not show. */
  readonly shown: boolean;
}

/** Where a run goes: the state it reaches and the fields that the state must carry. */
export type RunMove =
  | {
      readonly state: 'ready';
      readonly step_number: number;
      readonly attempt: number;
      readonly failures: number;
      readonly token_boost: number;
      readonly delay_ms: number;
      /** Left out: as it was. */
      readonly trail?: Trail;
    }
  | { readonly state: 'acting' }
  | { readonly state: 'requires_action' }
  | {
      readonly state: EndedState;
      readonly stop_reason: StopReason;
      readonly error: JsonObject | null;
      /** What the run came to; left out: nothing. */
      readonly result?: Json;
    };

type EndedState = Extract<RunState, 'completed' | 'failed' | 'cancelled' | 'expired'>;

/** What must be written about one step and its run, and from which state. */
export interface StepDecision {
  readonly kind: 'apply';
  readonly key: StepKey;
  /** Why, for the log. */
  readonly reason: string;
  readonly step: {
    readonly from: StepState;
    readonly state: StepState;
    /** True where an answer becomes part of the run: at most once for a step number. */
    readonly applies: boolean;
    readonly stop_reason: string | null;
    readonly error: JsonObject | null;
    readonly usage: Usage;
    /** Null where an answer came whose model has no price. */
    readonly cost_nanousd: number | null;
    readonly message_id: string | null;
    readonly model: string | null;
  };
  /** Of an attempt that is not applied: what is kept of it, which belongs to no step. */
  readonly messages: readonly AppendedMessage[];
  /** The calls of the answer. */
  readonly calls: readonly NewToolCall[];
  /** Changes of memory by the calls that were carried out, in their order. */
  readonly changes: readonly BlockChange[];
  /** What takes the place of the messages that the step has summarised. */
  readonly summary: string | null;
  readonly run: RunMove;
}

/** Nothing is written: the run has gone on without this line. */
export interface Refusal {
  readonly kind: 'refuse';
  readonly key: StepKey;
  readonly reason: 'stale' | 'ended';
}

/** The move that ends a run well, with its result if it has one. */
export function completed(stopReason: StopReason, result?: Json): RunMove {
  const ended = { state: 'completed', stop_reason: stopReason, error: null } as const;
  return result === undefined ? ended : { ...ended, result };
}

/** The move that ends a run without success; `message` is for the user and never holds provider internals. */
export function failed(stopReason: StopReason, message: string, detail: JsonObject = {}): RunMove {
  return { state: 'failed', stop_reason: stopReason, error: { message, ...detail } };
}

/** The move of a run whose batch is being cancelled. */
export const cancelledMove: RunMove = { state: 'cancelled', stop_reason: 'cancelled', error: null };

/** The move of a run that would go on and is past its deadline. */
export const overdueMove: RunMove = failed('deadline', 'The run passed its deadline before it was done.');

/** Milliseconds to wait after the `failures`-th failed attempt of a step. */
export function retryDelayMs(policy: RetryPolicy, failures: number): number {
  return Math.min(policy.retry_delay_ms_max, policy.retry_delay_ms * 2 ** Math.max(0, failures - 1));
}
