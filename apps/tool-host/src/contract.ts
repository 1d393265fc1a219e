/**
 * Types shared by the worker, the tool host and tool modules. Wire records are snake_case; exports of a module are
 * camelCase.
 */

/**
 * Effect of a repeated call.
 * - `none`: it has no side effects.
 * - `idempotent`: a repeat under the same idempotency key has no further effect.
 * - `once`: a repeat does harm; the tool host never repeats an interrupted call.
 */
export type SideEffects = 'none' | 'idempotent' | 'once';
/** Default of a module without the export: such a call is not repeated. */
export const SIDE_EFFECTS_DEFAULT: SideEffects = 'once';

/**
 * Class of a tool, which decides on its threads.
 * - `fast`: its calls take a few milliseconds; calls fill one thread before they take the next.
 * - `slow`: its calls wait or compute for longer; calls are spread over threads of their own.
 */
export type Speed = 'fast' | 'slow';
/** Default of a module without the export. */
export const SPEED_DEFAULT: Speed = 'fast';
/** Maximum `concurrency` of a module. */
export const CONCURRENCY_MAX = 10_000;

/** Default timeout of a call. Unit: milliseconds. */
export const TIMEOUT_MS_DEFAULT = 30_000;
/** Maximum timeout that a module or a request may set. Unit: milliseconds. */
export const TIMEOUT_MS_MAX = 600_000;
/** Default result limit. Unit: UTF-16 code units. */
export const RESULT_CHAR_LIMIT_DEFAULT = 50_000;
/** Maximum result limit: the longest stored result. */
export const RESULT_CHAR_LIMIT_MAX = 1_000_000;
/** Maximum length of error texts. Unit: UTF-16 code units. */
export const ERROR_CHARS_MAX = 1_000;
/** Pattern of tool names. A tool's name is its file name without the extension. */
export const TOOL_NAME_PATTERN = /^[a-zA-Z0-9_-]{1,64}$/;

/** Context of a call, as its tool sees it. */
export interface ToolContext {
  /** Fires at the timeout or when the caller gives up. A tool that ignores it is stopped with its thread. */
  readonly signal: AbortSignal;
  /** `agent-<uuid>`, as in the API. */
  readonly agentId: string;
  /** `run-<uuid>`, as in the API. */
  readonly runId: string;
  readonly toolUseId: string;
  /** The same for every attempt of a call. Pass it to services that refuse repeats. */
  readonly idempotencyKey: string;
}

/** The exports of a tool module, a file `<tool_name>.ts`, `.js` or `.mjs` in a tools folder. */
export interface ToolModule {
  /** Tells the model when to call the tool. */
  readonly description: string;
  /** JSON Schema of the arguments, `type: 'object'` at its root. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Default: {@link SIDE_EFFECTS_DEFAULT}. */
  readonly sideEffects?: SideEffects;
  /** Default: {@link SPEED_DEFAULT}. */
  readonly speed?: Speed;
  /**
   * Number of calls that may wait at a time, 1 to {@link CONCURRENCY_MAX}. Another process runs such a module, in one thread.
   */
  readonly concurrency?: number;
  /** Default: {@link TIMEOUT_MS_DEFAULT}, at most {@link TIMEOUT_MS_MAX}. */
  readonly timeoutMs?: number;
  /** Default: {@link RESULT_CHAR_LIMIT_DEFAULT}, at most {@link RESULT_CHAR_LIMIT_MAX}. */
  readonly resultCharLimit?: number;
  /** Runs the tool. A string is returned unchanged, any other value as JSON, `undefined` as `null`. */
  run(args: Record<string, unknown>, context: ToolContext): unknown;
}

/** A usable tool as described by its module, with defaults filled in. */
export interface ToolManifest {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly side_effects: SideEffects;
  readonly speed: Speed;
  /** The module's `concurrency`, or null. This host does not run a module that has one. */
  readonly concurrency: number | null;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
  /** Absolute path of the module. */
  readonly file: string;
}

/** An unusable file or folder. */
export interface ToolModuleProblem {
  readonly file: string;
  /** One sentence: the fault and its remedy. */
  readonly reason: string;
}

/** The usable tools of the folders, sorted by name, and the unusable files. */
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
  /** Overrides the module's timeout; 1 to {@link TIMEOUT_MS_MAX}. */
  readonly timeout_ms?: number;
  /** Overrides the module's limit; 1 to {@link RESULT_CHAR_LIMIT_MAX}. */
  readonly result_char_limit?: number;
}

/**
 * Status of a call.
 * - `succeeded`: the tool returned.
 * - `failed`: it threw, returned a value that is not JSON, or the request was invalid.
 * - `timed_out`: its timeout passed.
 * - `crashed`: its thread or process ended, or the caller gave up, before it returned.
 */
export type ToolCallStatus = 'succeeded' | 'failed' | 'timed_out' | 'crashed';

export interface ToolCallOutcome {
  readonly call_id: string;
  readonly status: ToolCallStatus;
  /** The tool's answer as text, for the model. For any status but `succeeded` the same text as `error`. */
  readonly result: string;
  /** Whether the answer exceeded the limit and was cut. */
  readonly truncated: boolean;
  /** Run time of the tool's function; 0 if it did not start. Unit: milliseconds. */
  readonly duration_ms: number;
  /** False only if the tool's function was certainly not entered: such a call may be repeated whatever its side effects. */
  readonly started: boolean;
  readonly error?: string;
  /** True if no tool host could be started, or the host was closed. Never caused by a tool. */
  readonly unavailable?: true;
}
