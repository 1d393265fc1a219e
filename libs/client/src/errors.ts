import type { ErrorCode, FieldError, Problem } from './generated/index.ts';

/** Codes of a {@link NightshiftApiError}: those of the API's problems, and `unexpected` for answers of other servers. */
export type ApiErrorCode = ErrorCode | 'unexpected';

/** The API refused a request. `message` says what is wrong, and what to do next. */
export class NightshiftApiError extends Error {
  override readonly name = 'NightshiftApiError';
  /** HTTP status. */
  readonly status: number;
  readonly code: ApiErrorCode;
  /** The wrong fields, or lines of a file; at most 100. */
  readonly errors: readonly FieldError[];
  /** Number of wrong fields; null if there may be more than `errors` lists. */
  readonly errorsTotal: number | null;
  /** Names the request in the API's log. */
  readonly requestId: string | undefined;

  constructor(status: number, problem: Partial<Problem>) {
    super(
      problem.detail ??
        `The server answered ${status} without a problem. Check that the URL is Nightshift's.`,
    );
    this.status = status;
    this.code = problem.code ?? 'unexpected';
    this.errors = problem.errors ?? [];
    this.errorsTotal = problem.errors_total ?? null;
    this.requestId = problem.request_id;
  }
}

/** No server answered, after all retries. `cause` is the error of the last attempt. */
export class NightshiftUnreachableError extends Error {
  override readonly name = 'NightshiftUnreachableError';
  readonly url: string;

  constructor(url: string, cause: unknown) {
    super(`No answer from ${new URL(url).origin}. Check the address, and that the API runs there.`, {
      cause,
    });
    this.url = url;
  }
}

/**
 * Why a file of results is not whole. `count`: other lines came than it counts, so they are of no use. `cut`, `line`: the
 * download ended behind a good line, after which it can go on.
 */
export type ResultsErrorCode = 'count' | 'cut' | 'line';

/** A file of results is not whole. */
export class NightshiftResultsError extends Error {
  override readonly name = 'NightshiftResultsError';
  readonly code: ResultsErrorCode;

  constructor(batchId: string, code: ResultsErrorCode, problem: string) {
    super(`The results of ${batchId} are not whole: ${problem}. Download them again.`);
    this.code = code;
  }
}

/** A file could not be sent as a batch: it cannot be read, it changed, or it is a stream that was cut. */
export class NightshiftFileError extends Error {
  override readonly name = 'NightshiftFileError';

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
  }
}

/** A webhook is not genuine, or not readable. */
export class NightshiftWebhookError extends Error {
  override readonly name = 'NightshiftWebhookError';
  readonly code: WebhookErrorCode;

  constructor(code: WebhookErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export type WebhookErrorCode =
  | 'missing_header'
  | 'invalid_timestamp'
  | 'too_old'
  | 'too_new'
  | 'wrong_signature'
  | 'invalid_secret'
  | 'invalid_body';

/** Tells whether the API refused a request with one of these codes; without codes, with any. */
export function isApiError(error: unknown, ...codes: readonly ApiErrorCode[]): error is NightshiftApiError {
  return error instanceof NightshiftApiError && (codes.length === 0 || codes.includes(error.code));
}

/** Throws the error again. An operation that the API does not know is younger than the API. */
export function explainOlderApi(error: unknown): never {
  if (!isApiError(error, 'unknown_path', 'method_not_allowed')) throw error;
  const detail = `${error.message} The API is older than this client: upgrade the API, or use the client of its version.`;
  throw new NightshiftApiError(error.status, {
    detail,
    code: error.code as ErrorCode,
    ...(error.requestId === undefined ? {} : { request_id: error.requestId }),
  });
}
