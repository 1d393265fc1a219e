import type { ReplyStatus } from './contract.ts';

/** Facts of a call under way, kept up by its runner, so that they are right whenever the call ends. */
export interface Progress {
  started: boolean;
  attempts: number;
  answer_bytes: number;
}

/** End of a call, before its text is cut. */
export interface Outcome {
  readonly status: ReplyStatus;
  readonly text: string;
  readonly offer_changed?: true;
}

export function succeeded(text: string): Outcome {
  return { status: 'succeeded', text };
}

export function failed(text: string): Outcome {
  return { status: 'failed', text };
}

/** Maximum length of the start of a text in an error. Unit: UTF-16 code units. */
const START_CHARS_MAX = 1_000;

/** Cuts a text for an error. */
export function startOf(text: string): string {
  return text.length <= START_CHARS_MAX ? text : `${text.slice(0, START_CHARS_MAX)}…`.toWellFormed();
}

/** Describes a thrown value. Never throws. */
export function describeError(thrown: unknown): string {
  try {
    return startOf(
      thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `Error: ${String(thrown)}`,
    );
  } catch {
    return 'Error: the thrown value could not be read';
  }
}
