import { toStorableText } from '../base/json.ts';
import { toolResult, type ToolResultBlock } from '../model/content.ts';
import type { ToolOutcome } from '../model/tool.ts';

/** An ended call of a step. */
export interface AnsweredCall {
  readonly tool_use_id: string;
  readonly outcome: ToolOutcome;
}

/** The end of a result that was cut. `why`: its length and the limit. */
export function cutNote(why: string): string {
  return `... [NOTE: function output was truncated since it exceeded the character limit (${why})]`;
}

/**
 * Cuts a result to `limit` characters (code points) and notes its length beyond the limit, as in Letta.
 * A result within the limit stays unchanged.
 */
export function capResult(text: string, limit: number): string {
  if (text.length <= limit) return text;
  let length = 0;
  let end = text.length;
  let index = 0;
  for (const character of text) {
    if (length === limit) end = index;
    length++;
    index += character.length;
  }
  if (length <= limit) return text;
  return text.slice(0, end) + cutNote(`${length} > ${limit}`);
}

/**
 * Makes the JSON text of the user content that answers the calls of a step.
 * It has a `tool_result` per distinct id, in order. The provider refuses a second result for an id, so the first
 * stands. {@link withText} adds further text.
 * The model gets the plain text, with `is_error` for a failure. Letta's package of status, message and time is for its
 * clients: a clock in the prompt would make retried requests differ.
 */
export function toolResultsMessage(calls: readonly AnsweredCall[]): string {
  const [only] = calls;
  if (only !== undefined && calls.length === 1) return JSON.stringify([resultOf(only)]);
  const results = new Map<string, ToolResultBlock>();
  for (const call of calls) {
    if (!results.has(call.tool_use_id)) results.set(call.tool_use_id, resultOf(call));
  }
  return JSON.stringify([...results.values()]);
}

function resultOf({ tool_use_id, outcome }: AnsweredCall): ToolResultBlock {
  const text = toStorableText(outcome.result);
  // The provider refuses an error without text.
  const content = text === '' && !outcome.ok ? 'The tool failed without a message.' : text;
  return toolResult(tool_use_id, content, !outcome.ok);
}

/** Appends a text to the results; the provider accepts nothing before a result. */
export function withText(resultsJson: string, text: string): string {
  const block = JSON.stringify({ type: 'text', text: text.toWellFormed() });
  return resultsJson === '[]' ? `[${block}]` : `${resultsJson.slice(0, -1)},${block}]`;
}
