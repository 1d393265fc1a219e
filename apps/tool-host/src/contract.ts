/**
 * The words shared by the worker, the tool host and the authors of module tools.
 * Records that travel are snake_case; what a tool module exports is camelCase.
 */

/**
 * What running a call a second time may do to the world.
 * `none`: nothing to repeat. `idempotent`: a repeat under the same idempotency key has no further effect.
 * `once`: a repeat would do harm; an interrupted call is never run again by the tool host.
 */
export type SideEffects = 'none' | 'idempotent' | 'once';
/** Of a module that does not say: a call whose author never thought of a repeat is not repeated. */
export const SIDE_EFFECTS_DEFAULT: SideEffects = 'once';

/** Deadline of a call whose module names none, in milliseconds. */
export const TIMEOUT_MS_DEFAULT = 30_000;
/** The longest deadline a module or a request may ask for, in milliseconds. */
export const TIMEOUT_MS_MAX = 600_000;
/** Result length kept when the module names no limit, in UTF-16 code units. */
export const RESULT_CHAR_LIMIT_DEFAULT = 50_000;
/** The largest result limit: the longest that is stored of a tool. */
export const RESULT_CHAR_LIMIT_MAX = 1_000_000;
/** Error texts are cut to this length, in UTF-16 code units. */
export const ERROR_CHARS_MAX = 1_000;
/** A tool's name is its file's name without the extension, and must match this. */
export const TOOL_NAME_PATTERN = /^[a-zA-Z0-9_-]{1,64}$/;

/** What a module tool is told about the call it serves. */
export interface ToolContext {
  /** Fires when the deadline passes or the caller gives up. A tool that ignores it is stopped with its thread. */
  readonly signal: AbortSignal;
  /** `agent-<uuid>`, the id that the API has for it. */
  readonly agentId: string;
  /** `run-<uuid>`, the id that the API has for it. */
  readonly runId: string;
  readonly toolUseId: string;
  /** The same for every attempt of one call; hand it to services that can refuse a repeat. */
  readonly idempotencyKey: string;
}

/** The exports of a tool module, a file `<tool_name>.ts`, `.js` or `.mjs` in a tools folder. */
export interface ToolModule {
  /** What the model reads to decide when to call the tool. */
  readonly description: string;
  /** JSON Schema of the arguments, `type: 'object'` at its root. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Default {@link SIDE_EFFECTS_DEFAULT}. */
  readonly sideEffects?: SideEffects;
  /** Default {@link TIMEOUT_MS_DEFAULT}, at most {@link TIMEOUT_MS_MAX}. */
  readonly timeoutMs?: number;
  /** Default {@link RESULT_CHAR_LIMIT_DEFAULT}, at most {@link RESULT_CHAR_LIMIT_MAX}. */
  readonly resultCharLimit?: number;
  /** A string is passed on as it is, any other value as JSON, `undefined` as `null`. */
  run(args: Record<string, unknown>, context: ToolContext): unknown;
}

/** A usable tool, as its module described it, defaults filled in. */
export interface ToolManifest {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly side_effects: SideEffects;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
  /** Absolute path of the module. */
  readonly file: string;
}

/** A file of a tools folder, or a folder, that could not be used. */
export interface ToolModuleProblem {
  readonly file: string;
  /** One sentence: what is wrong, and what to do about it. */
  readonly reason: string;
}

/** What the tools folders hold: the usable tools sorted by name, and what had to be left out. */
export interface ToolCatalog {
  readonly tools: readonly ToolManifest[];
  readonly problems: readonly ToolModuleProblem[];
}

export interface ToolCallRequest {
  /** The caller's own key, returned with the outcome. */
  readonly call_id: string;
  readonly tool_name: string;
  /** A JSON object, validated against the tool's schema by the caller. */
  readonly arguments: unknown;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
  readonly idempotency_key: string;
  /** Instead of the module's deadline; 1 to {@link TIMEOUT_MS_MAX}. */
  readonly timeout_ms?: number;
  /** Instead of the module's limit; 1 to {@link RESULT_CHAR_LIMIT_MAX}. */
  readonly result_char_limit?: number;
}

/**
 * `succeeded`: the tool returned. `failed`: it threw, returned something that is not JSON, or the request was unusable.
 * `timed_out`: its deadline passed. `crashed`: its thread or process ended, or the caller gave up, before it returned.
 */
export type ToolCallStatus = 'succeeded' | 'failed' | 'timed_out' | 'crashed';

export interface ToolCallOutcome {
  readonly call_id: string;
  readonly status: ToolCallStatus;
  /** The tool's answer as text; for any status but `succeeded` the same text as `error`, fit for the model to read. */
  readonly result: string;
  /** True when the answer was longer than the limit and was cut. */
  readonly truncated: boolean;
  /** From the start of the tool's function to its end; 0 when it did not start. */
  readonly duration_ms: number;
  /** False only when the tool's function was certainly not entered: such a call may be run again whatever its side effects. */
  readonly started: boolean;
  readonly error?: string;
}
