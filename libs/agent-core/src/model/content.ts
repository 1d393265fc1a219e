import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';

/** A content block as the provider sent it. Unknown types are legal and are echoed untouched. */
export type ContentBlock = JsonObject & { readonly type: string };

export interface ToolUseBlock {
  readonly type: 'tool_use';
  readonly id: string;
  readonly name: string;
  readonly input: Json;
}

export interface ToolResultBlock {
  readonly type: 'tool_result';
  readonly tool_use_id: string;
  readonly content: string;
  readonly is_error?: true;
}

export function isContentBlock(value: unknown): value is ContentBlock {
  return isJsonObject(value) && typeof value['type'] === 'string';
}

/** True for a call of a client tool that is complete enough to be answered (it has an id and a name). */
export function isToolUse(block: ContentBlock): boolean {
  return block.type === 'tool_use' && typeof block['id'] === 'string' && typeof block['name'] === 'string';
}

/** True for what the model has thought, shown or hidden. */
export function isThought({ type }: { readonly type?: unknown }): boolean {
  return type === 'thinking' || type === 'redacted_thinking';
}

/** What the provider takes back of a call. */
const TOOL_USE_ID = /^[a-zA-Z0-9_-]+$/;
const TOOL_USE_NAME_CHARS_MAX = 200;

/**
 * True for calls that later requests may show, each with its result. The provider refuses a conversation for as long as it
 * lives that holds two of one id, or one with an id, a name or an input as it would not write them itself.
 */
export function areEchoable(uses: readonly ContentBlock[]): boolean {
  return new Set(uses.map(({ id }) => id)).size === uses.length && uses.every(isEchoable);
}

function isEchoable({ id, name, input }: ContentBlock): boolean {
  const isNamed = typeof name === 'string' && name !== '' && name.length <= TOOL_USE_NAME_CHARS_MAX;
  return isNamed && typeof id === 'string' && TOOL_USE_ID.test(id) && isJsonObject(input);
}

/** The calls of an answer, in order. */
export function toolUsesOf(content: readonly ContentBlock[]): readonly ToolUseBlock[] {
  return content.filter(isToolUse) as unknown as readonly ToolUseBlock[];
}

/** One tool's answer. A user message holds one per call of the step, in call order, and nothing before them. */
export function toolResult(toolUseId: string, content: string, isError: boolean): ToolResultBlock {
  return isError
    ? { type: 'tool_result', tool_use_id: toolUseId, content, is_error: true }
    : { type: 'tool_result', tool_use_id: toolUseId, content };
}
