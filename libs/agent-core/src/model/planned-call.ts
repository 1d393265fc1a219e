import type { JsonObject } from '../base/json.ts';
import type { ToolDefinition, ToolKind } from './tool.ts';

/** A tool use of an answer, with the runner that carries it out. */
export interface PlannedCall {
  /** Position among the tool uses of the answer, from 0. */
  readonly index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  /** `rejected` calls are not carried out; `rejection` is their result, and an error. */
  readonly kind: ToolKind | 'rejected';
  /** Arguments for the runner: the model's, overridden by the tool rules', without omitted values. */
  readonly args: JsonObject;
  readonly rejection: string | null;
  /** Required input of the caller: an approval or a result; null for none. */
  readonly awaits: 'approval' | 'answer' | null;
  /** Error in the arguments that a tool rule fixes; null for none. It ends the run. */
  readonly prefill_error: string | null;
  /** Null for a tool outside the definition. */
  readonly tool: ToolDefinition | null;
}
