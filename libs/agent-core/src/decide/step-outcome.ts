import type { ContentBlock } from '../model/content.ts';
import type { Usage } from '../model/usage.ts';

/** What an answer cost, and what else its line tells that is booked with it. */
export interface StepBill {
  readonly stop_reason: string | null;
  readonly usage: Usage;
  /** Null where the model has no price. */
  readonly cost_nanousd: number | null;
  readonly message_id: string | null;
  readonly model: string | null;
}

/** An answer of the model, as the wire decoded it. */
export interface StepAnswer extends StepBill {
  readonly content: readonly ContentBlock[];
  /** The content array as it came, to the byte. */
  readonly content_json: string;
}

/**
 * What may be done about an error that a result line carries. `outage`: it says nothing about the request, which is sent
 * again for as long as it lasts. `retryable`: the request may be the cause, so it is sent again a few times.
 */
export type ErrorClass = 'permanent' | 'too_long' | 'retryable' | 'outage';

/** What became of a step at the provider. */
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
  /** Its line is whole, and its answer of no use. `bill`: null where the line does not tell it, here and below. */
  | { readonly kind: 'unusable'; readonly reason: string; readonly bill: StepBill | null }
  /** Its line is cut or garbled. */
  | { readonly kind: 'unreadable'; readonly reason: string; readonly bill: StepBill | null }
  /** It was not sent: by our estimate it does not fit the context window. */
  | { readonly kind: 'unfit'; readonly message: string }
  /** It breaks whoever takes it in: its line cannot be stored, or its request cannot be built. */
  | { readonly kind: 'poison'; readonly bill: StepBill | null }
  /** The result file, complete as far as can be told, has no line for it; or the provider lost the batch. */
  | { readonly kind: 'missing'; readonly bill: StepBill | null };

/** What is booked for an outcome; null: nothing. */
export function billOfOutcome(outcome: StepOutcome): StepBill | null {
  if (outcome.kind === 'answered') return outcome.answer;
  return 'bill' in outcome ? outcome.bill : null;
}

/** The same outcome with another bill. One without a bill stays as it is. */
export function withBill(outcome: StepOutcome, bill: StepBill): StepOutcome {
  if (outcome.kind === 'answered') return { ...outcome, answer: { ...outcome.answer, ...bill } };
  return 'bill' in outcome ? { ...outcome, bill } : outcome;
}

/** An answer that ended amid a tool call or a summary for want of tokens: how many it could have had decides its fate. */
export function needsTokens(outcome: StepOutcome, isSummary: boolean): boolean {
  if (outcome.kind !== 'answered' || outcome.answer.stop_reason !== 'max_tokens') return false;
  return isSummary || outcome.answer.content.some(({ type }) => type === 'tool_use');
}

/** Lines from which on their errors, taken together, say something about the provider. */
const OUTAGE_LINES_MIN = 10;
/** The share of them that must have failed. */
const OUTAGE_SHARE = 0.8;

/** True when so many requests of one file failed at the provider that none of them can be the cause. */
export function isOutage(outcomes: readonly StepOutcome[]): boolean {
  const failed = outcomes.filter(
    (outcome) =>
      outcome.kind === 'errored' && (outcome.error_class === 'retryable' || outcome.error_class === 'outage'),
  );
  return outcomes.length >= OUTAGE_LINES_MIN && failed.length >= outcomes.length * OUTAGE_SHARE;
}
