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

/** Returns whether a block is a client tool call with id and name, so that it can be answered. */
export function isToolUse(block: ContentBlock): boolean {
  return block.type === 'tool_use' && typeof block['id'] === 'string' && typeof block['name'] === 'string';
}

/** Returns whether a block is thinking, shown or hidden. */
export function isThought({ type }: { readonly type?: unknown }): boolean {
  return type === 'thinking' || type === 'redacted_thinking';
}

/** Tool use ids that the provider accepts in a request. */
const TOOL_USE_ID = /^[a-zA-Z0-9_-]+$/;
const TOOL_USE_NAME_CHARS_MAX = 200;

/**
 * Returns whether later requests may show these calls, each with its result.
 * The provider refuses duplicate call ids, and an id, name or input that it would not write itself.
 */
export function areEchoable(uses: readonly ContentBlock[]): boolean {
  return new Set(uses.map(({ id }) => id)).size === uses.length && uses.every(isEchoable);
}

function isEchoable({ id, name, input }: ContentBlock): boolean {
  const isNamed = typeof name === 'string' && name !== '' && name.length <= TOOL_USE_NAME_CHARS_MAX;
  return isNamed && typeof id === 'string' && TOOL_USE_ID.test(id) && isJsonObject(input);
}

/** Returns the calls of an answer, in order. */
export function toolUsesOf(content: readonly ContentBlock[]): readonly ToolUseBlock[] {
  return content.filter(isToolUse) as unknown as readonly ToolUseBlock[];
}

/** Makes a `tool_result` block. A user message begins with a block per call of the step, in call order. */
export function toolResult(toolUseId: string, content: string, isError: boolean): ToolResultBlock {
  return isError
    ? { type: 'tool_result', tool_use_id: toolUseId, content, is_error: true }
    : { type: 'tool_result', tool_use_id: toolUseId, content };
}
