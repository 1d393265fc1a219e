/** Why a request is refused: what would be thrown at it, where. */
export interface Issue {
  readonly type: 'invalid_request_error' | 'not_found_error';
  readonly message: string;
}

/** Where and by which rules a request is judged. */
export interface ValidationContext {
  readonly endpoint: 'batch' | 'messages' | 'count_tokens';
  /** The `anthropic-version` of the HTTP request. */
  readonly version: string;
  readonly betas: readonly string[];
  readonly seed: string;
  /** The size of the params on the wire. */
  readonly paramsBytes: number;
}

/** An invalid_request_error. */
export function invalid(message: string): Issue {
  return { type: 'invalid_request_error', message };
}

/** A value of a request as a message names it: text bare, everything else as JSON. */
export function named(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
