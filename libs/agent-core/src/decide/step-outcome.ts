import type { ContentBlock } from '../model/content.ts';
import type { Usage } from '../model/usage.ts';

/** Cost of an answer, and the other booked facts of its line. */
export interface StepBill {
  readonly stop_reason: string | null;
  readonly usage: Usage;
  /** Null for a model without a price. */
  readonly cost_nanousd: number | null;
  readonly message_id: string | null;
  readonly model: string | null;
}

/** A decoded answer of the model. */
export interface StepAnswer extends StepBill {
  readonly content: readonly ContentBlock[];
  /** The original bytes of the content array. */
  readonly content_json: string;
}

/**
 * Class of a result line's error.
 * - `retryable`: possibly caused by the request, which is retried a few times.
 * - `overloaded`: the provider says that it has no room. Retried like `retryable`, and stronger evidence of an outage.
 * - `outage`: one of the two while the provider fails nearly all requests of the model. It is retried for a bounded time.
 * - `account`: key, permission or money. It is retried until the account is mended; meanwhile the credential is paused.
 */
export type ErrorClass = 'permanent' | 'too_long' | 'retryable' | 'overloaded' | 'outage' | 'account';

/** Outcome of a step at the provider. */
export type StepOutcome =
  | { readonly kind: 'answered'; readonly answer: StepAnswer }
  | {
      readonly kind: 'errored';
      readonly error_class: ErrorClass;
      readonly error_type: string;
      readonly message: string;
    }
  | { readonly kind: 'expired' }
  | { readonly kind: 'canceled' }
  /** A complete line with an unusable answer. `bill`, also in the kinds below: null if the line has no usage. */
  | { readonly kind: 'unusable'; readonly reason: string; readonly bill: StepBill | null }
  /** A cut or garbled line. */
  | { readonly kind: 'unreadable'; readonly reason: string; readonly bill: StepBill | null }
  /** Not sent: by estimate it exceeds the context window. */
  | { readonly kind: 'unfit'; readonly message: string }
  /** A step that crashes its worker when its line is stored or its request is built. */
  | { readonly kind: 'poison'; readonly bill: StepBill | null }
  /** The result file seems complete without its line, or the provider lost the batch. */
  | { readonly kind: 'missing'; readonly bill: StepBill | null };

/** Returns the bill of an outcome; null for none. */
export function billOfOutcome(outcome: StepOutcome): StepBill | null {
  if (outcome.kind === 'answered') return outcome.answer;
  return 'bill' in outcome ? outcome.bill : null;
}

/** Returns the outcome with another bill; unchanged if it has none. */
export function withBill(outcome: StepOutcome, bill: StepBill): StepOutcome {
  if (outcome.kind === 'answered') return { ...outcome, answer: { ...outcome.answer, ...bill } };
  return 'bill' in outcome ? { ...outcome, bill } : outcome;
}

/** Returns whether the answer hit `max_tokens` during a tool call or summary. The run's token limit decides about a retry. */
export function needsTokens(outcome: StepOutcome, isSummary: boolean): boolean {
  if (outcome.kind !== 'answered' || outcome.answer.stop_reason !== 'max_tokens') return false;
  return isSummary || outcome.answer.content.some(({ type }) => type === 'tool_use');
}
