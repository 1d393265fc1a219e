import type { JsonObject } from '../base/json.ts';

/** Who carries a tool out: the store, operator's code in the tool host, or the caller. `finish` hands the run's result over. */
export type ToolKind = 'memory' | 'module' | 'client' | 'finish';
/** What a repeated call would do; decides whether a call that a crash interrupted may run again. */
export type SideEffects = 'none' | 'idempotent' | 'once';

/** A tool as a definition freezes it: what the model is told and how a call is carried out. */
export interface ToolDefinition {
  readonly name: string;
  readonly kind: ToolKind;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  /** Characters of a result beyond which it is cut. */
  readonly return_char_limit: number;
  /** Milliseconds a call may take. */
  readonly timeout_ms: number;
  readonly requires_approval: boolean;
}

/** What a call came to, before it is packed for the model. */
export interface ToolOutcome {
  readonly ok: boolean;
  /** The text that the model reads. */
  readonly result: string;
}
