/** Types and limits of sandboxed calls, shared by the worker, the host process and its threads. */

/**
 * Effect of a repeated call.
 * - `none`: it has no side effects.
 * - `idempotent`: a repeat under the same idempotency key has no further effect.
 * - `once`: a repeat does harm; an interrupted call is not repeated.
 */
export type SideEffects = 'none' | 'idempotent' | 'once';

/** Maximum timeout of a call. Unit: milliseconds. */
export const TIMEOUT_MS_MAX = 600_000;
/** Default result limit. Unit: UTF-16 code units. */
export const RESULT_CHAR_LIMIT_DEFAULT = 50_000;
/** Maximum result limit. Unit: UTF-16 code units. */
export const RESULT_CHAR_LIMIT_MAX = 1_000_000;
/** Maximum length of error texts, and of captured stdout and stderr each. Unit: UTF-16 code units. */
export const OUTPUT_CHARS_MAX = 4_096;
/** Maximum number of `fetch` requests of a call. */
export const FETCHES_MAX = 20;
/** Maximum total length of the `fetch` requests of a call. Unit: UTF-16 code units of their JSON. */
export const FETCH_CHARS_MAX = 4 * 1024 * 1024;

/** A call as its thread receives it. */
export interface SandboxCall {
  /** Name of the function that the code exports; `default` is called if there is none of this name. */
  readonly tool_name: string;
  /** An ES module in JavaScript, as `checkSource` of the intake returns it. */
  readonly code: string;
  /** Names of the arguments in the order of the function's parameters. */
  readonly parameters: readonly string[];
  readonly timeout_ms: number;
  /** Start of the clock that the code sees. Unit: milliseconds since 1970. */
  readonly now_ms: number;
  /** The same for every attempt of a call. Seeds `Math.random`. */
  readonly idempotency_key: string;
  /** Hosts that `fetch` may reach, such as `api.example.com`. Without any there is no `fetch`. */
  readonly network: readonly string[];
  /** Values that the code reads as `process.env`. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: {@link RESULT_CHAR_LIMIT_DEFAULT}. */
  readonly result_char_limit?: number;
}

export interface SandboxRequest extends SandboxCall {
  /** The caller's own key, returned with the reply. */
  readonly call_id: string;
  /** A JSON object, validated against the tool's schema by the caller. */
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly side_effects: SideEffects;
}

/**
 * Status of a call.
 * - `succeeded`: the function returned, or its promise was fulfilled.
 * - `failed`: it threw, returned a value that is not JSON, or the request was invalid.
 * - `timed_out`: its timeout passed.
 * - `crashed`: its thread or process ended, or the caller gave up, before it returned.
 */
export type SandboxStatus = 'succeeded' | 'failed' | 'timed_out' | 'crashed';

/** The end of a call as its thread reports it. */
export interface SandboxOutcome {
  readonly status: SandboxStatus;
  /** The answer as text: a string unchanged, any other value as JSON, `undefined` as `null`. Else the error. */
  readonly result: string;
  /** Run time of the code; 0 if it did not start. Unit: milliseconds. */
  readonly duration_ms: number;
  /** Whether the answer exceeded the limit and was cut. */
  readonly truncated: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SandboxReply extends SandboxOutcome {
  readonly call_id: string;
  /** False only if the code was certainly not entered: such a call may be repeated whatever its side effects. */
  readonly started: boolean;
  /** The host does not start. The call may be repeated later. */
  readonly unavailable?: true;
}

/** A `fetch` of sandboxed code. Written by hostile code: only its shape has been checked. */
export interface SandboxFetchRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface SandboxFetchAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Carries out a `fetch` of sandboxed code. `hosts` are those of the call; the URL's host is among them, and a redirect must
 * be checked against them again. `signal` fires when the call ends.
 * Throws: an error whose message is shown to the code.
 */
export type SandboxFetch = (
  request: SandboxFetchRequest,
  context: { readonly call_id: string; readonly hosts: readonly string[]; readonly signal: AbortSignal },
) => Promise<SandboxFetchAnswer>;
