import { ISSUES_MAX } from './bounded.ts';

/**
 * The catalogue of errors: code, title, HTTP status and next action of the reader.
 * Every error that leaves a library or an app has a code of this table.
 * `docs/reference/errors.md` is generated from it.
 */

interface CatalogueEntry {
  /** HTTP status of the response; null for errors that never reach a client. */
  readonly status: number | null;
  readonly title: string;
  /** Next action of the reader, as a sentence. */
  readonly next: string;
}

export const ERROR_CATALOGUE = {
  invalid_argument: {
    status: 400,
    title: 'Bad request',
    next: 'Correct the named field and send the request again.',
  },
  unauthorized: {
    status: 401,
    title: 'Unauthorized',
    next: 'Send the key as `Authorization: Bearer <key>`; `npm start` prints it.',
  },
  not_found: { status: 404, title: 'Not found', next: 'Check the id; lists show what exists.' },
  unknown_path: { status: 404, title: 'Unknown path', next: 'See GET /openapi.json for the paths.' },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    next: 'See GET /openapi.json for the methods of this path.',
  },
  request_timeout: {
    status: 408,
    title: 'Request timed out',
    next: 'Send the request again.',
  },
  conflict: {
    status: 409,
    title: 'Conflict',
    next: 'Read the resource again, then repeat or change the request.',
  },
  batch_running: {
    status: 409,
    title: 'Batch has not ended',
    next: 'Wait until the batch has ended, or cancel it, and ask again.',
  },
  payload_too_large: {
    status: 413,
    title: 'Payload too large',
    next: 'Split the request; the limit is in the message.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    next: 'Send application/json, not encoded, or lines where the route takes them.',
  },
  validation_failed: {
    status: 422,
    title: 'Validation failed',
    next: 'Correct the named fields and send the request again.',
  },
  mcp_server_unusable: {
    status: 422,
    title: 'MCP server cannot be used',
    next: 'Correct its address or headers, or start the server; then send the request again.',
  },
  idempotency_mismatch: {
    status: 422,
    title: 'Idempotency key reused',
    next: 'Use a new Idempotency-Key for a new body.',
  },
  internal: { status: 500, title: 'Internal error', next: 'Look up the request id in the server log.' },
  secrets_key_missing: {
    status: 501,
    title: 'Key of secrets missing',
    next: 'Give the API and all workers the same SECRETS_KEY, with earlier keys in SECRETS_KEYS_OLD, and restart them.',
  },
  no_worker: {
    status: 503,
    title: 'No worker',
    next: 'Check with GET /v1/workers that a worker runs and is not drained, then send the request again.',
  },
  not_ready: { status: 503, title: 'Not ready', next: 'Try again in a few seconds.' },
  too_slow: {
    status: 504,
    title: 'Takes too long',
    next: 'Narrow the request, for example by `batch_id` or `agent_id`. Retrying unchanged will time out again.',
  },
  outcome_unknown: {
    status: 504,
    title: 'Outcome unknown',
    next: 'Check whether the call has taken effect before you make it again.',
  },
  fenced: {
    status: null,
    title: 'Lease lost',
    next: 'Nothing: another worker has taken the row over, and continues from the last commit.',
  },
  stale: {
    status: null,
    title: 'Row has moved on',
    next: 'Nothing: the decision is dropped. The row is read and decided again.',
  },
  illegal_transition: {
    status: null,
    title: 'Illegal state transition',
    next: 'A bug: report it with the state and event of the message.',
  },
  database_from_future: {
    status: null,
    title: 'Database is newer than this program',
    next: 'Start the newer release, or restore the backup from before its migration. docs/OPERATING.md names the cost.',
  },
  database_from_past: {
    status: null,
    title: 'Database of an earlier development state',
    next: 'Remove its data with `npm start -- --fresh`, or name an empty database in DATABASE_URL.',
  },
  database_unreachable: {
    status: 503,
    title: 'Database unreachable',
    next: 'Check that the server of DATABASE_URL runs and takes writes, and that its max_connections is large enough.',
  },
  bad_configuration: {
    status: null,
    title: 'Bad configuration',
    next: 'Correct the named environment variable.',
  },
  other_provider: {
    status: null,
    title: 'Work is under way at another provider',
    next: 'Start as before, with or without ANTHROPIC_API_KEY, until the work has ended or is cancelled. Then change the key.',
  },
  secret_damaged: {
    status: null,
    title: 'Secret cannot be decrypted',
    next: 'Store the secret again: its row was altered, or moved to another name, agent or project.',
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

/**
 * An invalid field of a request.
 * `path` is a JSON Pointer into the body, `?name` for a query parameter, or the name of a path parameter.
 */
export interface FieldError {
  readonly path: string;
  readonly message: string;
}

/** An error of the catalogue. `message` is safe to show to a client; `cause` is for the log only. */
export class NightshiftError extends Error {
  readonly code: ErrorCode;
  /** At most {@link ISSUES_MAX}. */
  readonly fields: readonly FieldError[];
  /** Number of invalid fields; null: checking stopped at the limit, so there may be more. */
  readonly fields_total: number | null;

  constructor(
    code: ErrorCode,
    message: string,
    options: { fields?: readonly FieldError[]; fields_total?: number | null; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'NightshiftError';
    this.code = code;
    const { fields = [], fields_total = fields.length } = options;
    this.fields = fields.slice(0, ISSUES_MAX);
    this.fields_total = fields_total;
  }
}

/** Returns whether a value is an error of the catalogue with this code. */
export function isError(error: unknown, code: ErrorCode): error is NightshiftError {
  return error instanceof NightshiftError && error.code === code;
}
