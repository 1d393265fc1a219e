/** The reason for refusing a request, and its place. */
export interface Issue {
  readonly type: 'invalid_request_error' | 'not_found_error';
  readonly message: string;
}

/** The context of validation. */
export interface ValidationContext {
  readonly endpoint: 'batch' | 'messages' | 'count_tokens';
  /** The `anthropic-version` of the HTTP request. */
  readonly version: string;
  readonly betas: readonly string[];
  readonly seed: string;
  /** Size of the params in bytes. */
  readonly paramsBytes: number;
}

/** Creates an `invalid_request_error`. */
export function invalid(message: string): Issue {
  return { type: 'invalid_request_error', message };
}

/** Formats a value for a message: text as it is, everything else as JSON. */
export function named(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
