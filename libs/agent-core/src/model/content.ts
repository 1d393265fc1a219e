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
