import type { BlockChange } from './block-change.ts';
import type { PlannedCall } from './planned-call.ts';
import type { ToolKind, ToolOutcome } from './tool.ts';

/** The first row of a call. An ended call includes its result. */
export interface NewToolCall {
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly kind: ToolKind | 'rejected';
  readonly state: 'pending' | 'succeeded' | 'failed';
  /** Kept only while other calls of the step are pending; null once all results are in a message. */
  readonly held_result: string | null;
  /** Required input of the caller; null for none. */
  readonly awaits: PlannedCall['awaits'];
  /** Set for an ended call. */
  readonly duration_ms: number;
}

/** The end of a call. */
export interface EndedCall {
  readonly call_index: number;
  readonly state: 'succeeded' | 'failed' | 'unknown';
  readonly duration_ms: number;
}

/** The memory that the calls of a step read and change. */
export interface StepMemory {
  /** Carries out a call of a built-in memory tool. Calls of a step are given in their order. */
  carryOut(call: PlannedCall): MemoryResult;
}

/** Outcome and changes of a memory call, committed with the decision. */
export interface MemoryResult {
  readonly outcome: ToolOutcome;
  readonly changes: readonly BlockChange[];
}
