import type { BlockChange } from './block-change.ts';
import type { PlannedCall } from './planned-call.ts';
import type { ToolKind, ToolOutcome } from './tool.ts';

/** A call of an answer, as its row is first written. Calls that have ended come with their result. */
export interface NewToolCall {
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly kind: ToolKind | 'rejected';
  readonly state: 'pending' | 'succeeded' | 'failed';
  /** Kept only while other calls of the step are pending; null once all results are in a message. */
  readonly held_result: string | null;
  /** What only the caller can give; null: nothing. */
  readonly awaits: PlannedCall['awaits'];
  /** Of a call that has ended. */
  readonly duration_ms: number;
}

/** How a call ended. */
export interface EndedCall {
  readonly call_index: number;
  readonly state: 'succeeded' | 'failed' | 'unknown';
  readonly duration_ms: number;
}

/** The memory that the calls of one step read and change. */
export interface StepMemory {
  /** Carries out one call of a built-in memory tool. The calls of a step come in their order. */
  carryOut(call: PlannedCall): MemoryResult;
}

/** The outcome of a memory call, and its changes, to be committed with the decision. */
export interface MemoryResult {
  readonly outcome: ToolOutcome;
  readonly changes: readonly BlockChange[];
}
