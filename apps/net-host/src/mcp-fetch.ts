import { createGuardedFetch, EgressError } from '@nightshift/egress';
import type { McpFetch } from '@nightshift/mcp';
import { AsyncLocalStorage } from 'node:async_hooks';
import { AWAY, untilCallable, type Net } from './exchange.ts';
import type { Progress } from './progress.ts';

/** Longest answer. Unit: bytes. */
const ANSWER_BYTES_MAX = 1024 * 1024;
/** Timeout of requests outside of calls: to connect, to list tools, to cancel. */
export const REQUEST_TIMEOUT_MS = 20_000;
/** Time in which the client reads the last event of an answer that has ended. */
const LAST_EVENT_MS = 1_000;

/** The exchange of a call with its server. */
interface Exchange {
  readonly signal: AbortSignal;
  readonly timeout_ms: number;
  readonly keep_alive: boolean;
  readonly progress: Progress;
  /** Ends the call. The client itself would wait for the rest of a broken answer until its timeout. */
  readonly fail: (error: Error) => void;
}

/** A reason made once: one per call costs time. */
const ENDED = new Error('the call has ended');
const exchanges = new AsyncLocalStorage<Exchange>();

/** Runs a call whose requests end with it, and keeps up its progress. Throws: the first error of the call or its answer. */
export async function inExchange<Result>(
  exchange: Omit<Exchange, 'fail'>,
  call: () => Promise<Result>,
): Promise<Result> {
  const broken = Promise.withResolvers<never>();
  const ended = new AbortController();
  const end = (): void => broken.reject(exchange.signal.reason);
  exchange.signal.addEventListener('abort', end, { once: true });
  try {
    const signal = AbortSignal.any([exchange.signal, ended.signal]);
    const result = exchanges.run({ ...exchange, signal, fail: broken.reject }, call);
    return await Promise.race([result, broken.promise]);
  } finally {
    exchange.signal.removeEventListener('abort', end);
    ended.abort(ENDED);
  }
}

/** Makes the `fetch` of a connection: guarded, bounded, and with the breaker of the host. */
export function createMcpFetch(allow_private: boolean, net: Net): McpFetch {
  return async (input, init) => {
    const found = exchanges.getStore();
    // The notice that a call was cancelled is sent after its end.
    const exchange = found?.signal.aborted === false ? found : undefined;
    const host = URL.parse(String(input))?.host ?? '';
    const { timeout_ms = REQUEST_TIMEOUT_MS, keep_alive = true } = exchange ?? {};
    const guarded = createGuardedFetch(net.egress, {
      ...{ allow_private, keep_alive, timeout_ms, redirects_max: 0, answer_bytes_max: ANSWER_BYTES_MAX },
    });
    const signal = AbortSignal.any([init?.signal, exchange?.signal].filter((each) => each != null));
    await untilCallable(host, net.nowMs() + timeout_ms, signal, net);
    const called = exchange !== undefined && isToolCall(init) ? exchange : undefined;
    const wasStarted = called?.progress.started ?? false;
    // Any other end of the call, such as the end of its connection, comes while the request may be on its way.
    if (called !== undefined)
      Object.assign(called.progress, { started: true, attempts: called.progress.attempts + 1 });
    try {
      const response = await guarded(input, { ...init, signal });
      net.breakers.record(host, !AWAY.has(response.status), net.nowMs());
      return called === undefined ? response : watched(response, called);
    } catch (error) {
      if (called !== undefined && error instanceof EgressError && !error.sent)
        called.progress.started = wasStarted;
      if (error instanceof EgressError && (error.code === 'unreachable' || error.code === 'timed_out'))
        net.breakers.record(host, false, net.nowMs());
      throw error;
    }
  };
}

/** Whether a request is a call; within the exchange of a call the client also answers requests of the server. */
function isToolCall(init: RequestInit | undefined): boolean {
  if (typeof init?.body !== 'string') return false;
  return (JSON.parse(init.body) as { readonly method?: unknown }).method === 'tools/call';
}

function watched(response: Response, exchange: Exchange): Response {
  const { body, status, headers } = response;
  return body === null
    ? response
    : new Response(ReadableStream.from(watch(body, exchange)), { status, headers });
}

async function* watch(
  body: AsyncIterable<Uint8Array>,
  { progress, fail, signal }: Exchange,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of body) {
      progress.answer_bytes += piece.length;
      yield piece;
    }
  } catch (error) {
    fail(error as Error);
    throw error;
  }
  const late = setTimeout(
    () => fail(new EgressError('unreachable', 'the answer ended without a result', true)),
    LAST_EVENT_MS,
  );
  signal.addEventListener('abort', () => clearTimeout(late), { once: true });
}
