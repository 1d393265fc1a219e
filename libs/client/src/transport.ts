import { NightshiftApiError, NightshiftUnreachableError } from './errors.ts';
import type { Problem } from './generated/index.ts';

/** A retry that is about to be waited for. */
export interface Retry {
  /** First retry: 1. */
  readonly attempt: number;
  readonly delayMs: number;
  /** HTTP status of the refused attempt; null if no server answered. */
  readonly status: number | null;
}

/** Settings of a client's requests. */
export interface TransportOptions {
  readonly fetch: (request: Request) => Promise<Response>;
  readonly retriesMax: number;
  readonly timeoutMs: number;
  readonly onRetry: (retry: Retry) => void;
}

/** A request that can be made again for each attempt. */
export interface Attempts {
  /** Makes the request of an attempt, which the signal ends. An error of it is thrown as it is. */
  readonly make: (signal: AbortSignal) => Request | Promise<Request>;
  readonly signal?: AbortSignal | null | undefined;
  /** Default: the client's. */
  readonly retriesMax?: number | undefined;
  /** Time for the answer. Default: the client's. */
  readonly timeoutMs?: number | undefined;
  /** True leaves the body of the answer to the caller, and has no timeout. Default: false. */
  readonly isStream?: boolean | undefined;
}

/** Sends a request until it is answered. Throws: {@link NightshiftApiError}, {@link NightshiftUnreachableError}. */
export type Transport = (attempts: Attempts) => Promise<Response>;

const DELAY_MS = 500;
const DELAY_MS_MAX = 8_000;
/** Longest wait that a server may ask for; with a longer one its refusal is thrown. */
const RETRY_AFTER_MS_MAX = 600_000;

/** Statuses with which the API, or a proxy before it, says "not now". */
const NOT_NOW: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Returns a function that repeats requests without an answer, and requests that are answered 429, 502, 503 or 504. It waits as
 * long as `Retry-After` says, else 0.5 s, doubled up to 8 s.
 * A repeated request is safe: a POST carries an `Idempotency-Key`, all other requests may come twice.
 */
export function createTransport(options: TransportOptions): Transport {
  return async (attempts) => {
    const { signal, retriesMax = options.retriesMax } = attempts;
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      const answer = await once(options, attempts);
      const isAnswer = answer instanceof Response;
      if (isAnswer && !mayRepeat(answer)) return refuse(answer);
      const delayMs = delayOf(attempt, isAnswer ? answer.headers.get('retry-after') : null);
      if (attempt > retriesMax || delayMs > RETRY_AFTER_MS_MAX) {
        if (isAnswer) return refuse(answer);
        throw answer;
      }
      options.onRetry({ attempt, delayMs, status: isAnswer ? answer.status : null });
      if (isAnswer) await answer.body?.cancel();
      await pause(delayMs, signal);
    }
  };
}

/** Whether a refusal says "not now", and not that a repeated request is answered the same. */
function mayRepeat({ status, headers }: Response): boolean {
  return NOT_NOW.has(status) && headers.get('x-should-retry') !== 'false';
}

/** Sends a request once. An answer that is cut, or late, is no answer; a stream is left to the caller. */
async function once(
  { fetch, ...defaults }: TransportOptions,
  { make, signal, isStream = false, timeoutMs = defaults.timeoutMs }: Attempts,
): Promise<Response | NightshiftUnreachableError> {
  const late = new AbortController();
  const abort = (): void => late.abort(new Error(`No whole answer within ${timeoutMs / 1_000} s.`));
  const request = await make(signal == null ? late.signal : AbortSignal.any([signal, late.signal]));
  const timer = isStream || timeoutMs === Infinity ? undefined : setTimeout(abort, timeoutMs);
  try {
    const answer = await fetch(request);
    if (isStream || answer.body === null) return answer;
    const { status, statusText, headers } = answer;
    return new Response(await answer.arrayBuffer(), { status, statusText, headers });
  } catch (error) {
    signal?.throwIfAborted();
    return new NightshiftUnreachableError(request.url, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Tells whether the same request may succeed later: no server answered, or one said "not now". */
export function isTransient(error: unknown): boolean {
  return (
    error instanceof NightshiftUnreachableError ||
    (error instanceof NightshiftApiError && NOT_NOW.has(error.status))
  );
}

/** Throws the API's problem as an error; returns every other answer. */
async function refuse(response: Response): Promise<Response> {
  if (response.ok || response.status === 304) return response;
  throw new NightshiftApiError(response.status, await problemOf(response));
}

/** Reads the problem of a refusal; an empty one if the answer is not the API's. */
async function problemOf(response: Response): Promise<Partial<Problem>> {
  try {
    const problem: unknown = await response.json();
    return typeof problem === 'object' && problem !== null ? problem : {};
  } catch {
    return {};
  }
}

/** Returns the milliseconds before a retry. `retryAfter` is in seconds or an HTTP date. */
function delayOf(attempt: number, retryAfter: string | null): number {
  const seconds = Number(retryAfter ?? Number.NaN);
  const told = Number.isNaN(seconds) ? Date.parse(retryAfter ?? '') - Date.now() : seconds * 1_000;
  if (told > 0) return told;
  return backoffOf(attempt);
}

/** Returns the milliseconds before a retry without `Retry-After`: doubled from 0.5 s up to 8 s, less up to a quarter. */
export function backoffOf(attempt: number): number {
  return Math.min(DELAY_MS * 2 ** (attempt - 1), DELAY_MS_MAX) * (0.75 + Math.random() / 4);
}

/** Waits. Throws the signal's reason when it is aborted. */
export function pause(ms: number, signal?: AbortSignal | null): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const end = (act: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      act();
    };
    const abort = (): void => end(() => reject(signal?.reason as Error));
    const timer = setTimeout(() => end(resolve), ms);
    signal?.addEventListener('abort', abort);
  });
}
