import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition, ToolKind } from './tool.ts';

/** A tool use of an answer, and who is to carry it out. */
export interface PlannedCall {
  /** Position among the tool uses of the answer, from 0. */
  readonly index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  /** `rejected` calls are not carried out; `rejection` is their result, and an error. */
  readonly kind: ToolKind | 'rejected';
  /** What it is carried out with: the model's arguments, with those that a tool rule fixes over them, and what counts as left out away. */
  readonly args: JsonObject;
  readonly rejection: string | null;
  /** What only the caller can give: leave to carry it out, or its result. Null where nothing is awaited. */
  readonly awaits: 'approval' | 'answer' | null;
  /** What is wrong with the arguments that a tool rule fixes for it; null for nothing. It ends the run. */
  readonly prefill_error: string | null;
  /** Null for a tool that the definition does not have. */
  readonly tool: ToolDefinition | null;
}
