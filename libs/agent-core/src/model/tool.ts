import type { JsonObject } from '../base/json.ts';

/** Runner of a tool: the store, the tool host, or the caller. `finish` delivers the run's result. */
export type ToolKind = 'memory' | 'module' | 'client' | 'finish';
/** Effect of a repeated call; decides whether an interrupted call may run again. */
export type SideEffects = 'none' | 'idempotent' | 'once';

/** A tool as frozen in a definition: its prompt and its runner. */
export interface ToolDefinition {
  readonly name: string;
  readonly kind: ToolKind;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  /**
   * Length to which a result is cut.
   * Unit: characters.
   */
  readonly return_char_limit: number;
  /**
   * Timeout of a call.
   * Unit: milliseconds.
   */
  readonly timeout_ms: number;
  readonly requires_approval: boolean;
}

/** Outcome of a call, before it is packed for the model. */
export interface ToolOutcome {
  readonly ok: boolean;
  /** Text for the model. */
  readonly result: string;
}
