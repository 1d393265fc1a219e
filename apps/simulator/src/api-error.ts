/** A refusal of the provider: thrown by handlers, sent in the provider's error envelope. */
export interface ApiError {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly error_code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const STATUS_OF_TYPE: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

const TYPE_OF_STATUS: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(STATUS_OF_TYPE).map(([type, status]) => [status, type]),
);

/** An Error that carries an ApiError as `apiError`. */
export class ApiFailure extends Error {
  readonly apiError: ApiError;

  constructor(apiError: ApiError) {
    super(apiError.message);
    this.name = 'ApiFailure';
    this.apiError = apiError;
  }
}

/** Creates an ApiFailure of an error type with its status. */
export function apiFailure(
  type: string,
  message: string,
  headers?: Readonly<Record<string, string>>,
): ApiFailure {
  const status = STATUS_OF_TYPE[type] ?? 500;
  return new ApiFailure({ status, type, message, ...(headers ? { headers } : {}) });
}

/** Returns the error type of an HTTP status; `api_error` for an unknown status. */
export function typeOfStatus(status: number): string {
  return TYPE_OF_STATUS[status] ?? 'api_error';
}

/** Formats the error envelope as JSON. The edge answers 413 itself, in a shorter shape. */
export function errorBody(error: ApiError, requestId: string): string {
  if (error.status === 413) return JSON.stringify({ error: { type: error.type, message: error.message } });
  const details = error.error_code === undefined ? {} : { details: { error_code: error.error_code } };
  return JSON.stringify({
    type: 'error',
    error: { type: error.type, message: error.message, ...details },
    request_id: requestId,
  });
}
