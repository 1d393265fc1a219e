import { toStorableText } from '../base/json.ts';
import { toolResult, type ToolResultBlock } from '../model/content.ts';
import type { ToolOutcome } from '../model/tool.ts';

/** A call of a step that has come to an end. */
export interface AnsweredCall {
  readonly tool_use_id: string;
  readonly outcome: ToolOutcome;
}

/**
 * A result cut to `limit` characters (code points), with a note of how long it was. The note stands beyond the limit,
 * as in Letta. A result within the limit is returned as it is.
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
  return `${text.slice(0, end)}... [NOTE: function output was truncated since it exceeded the character limit (${length} > ${limit})]`;
}

/**
 * The JSON text of the user content that answers the calls of one step: one `tool_result` per distinct tool use id, in
 * call order. The provider refuses a second result for an id, so the first one stands.
 * {@link withText} adds what else the model is to be told.
 *
 * The model gets the plain result text, with `is_error` for a failure. Letta's package of status, message and time
 * is made for its clients alone: a clock in the prompt would make retried requests differ.
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

/** The results with a text behind them, where the provider takes it: nothing may stand before a result. */
export function withText(resultsJson: string, text: string): string {
  const block = JSON.stringify({ type: 'text', text: text.toWellFormed() });
  return resultsJson === '[]' ? `[${block}]` : `${resultsJson.slice(0, -1)},${block}]`;
}
