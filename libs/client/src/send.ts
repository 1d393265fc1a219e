import { mergeHeaders, type Fields } from './headers.ts';
import { withOnceKey } from './once.ts';
import type { Attempts, Transport } from './transport.ts';

/** A request by method and path. */
export interface SendOptions extends Pick<Attempts, 'signal' | 'retriesMax' | 'timeoutMs' | 'isStream'> {
  /** Values of the query; an array is repeated, undefined is left out. */
  readonly query?: Readonly<Record<string, QueryValue | readonly QueryValue[] | undefined>> | undefined;
  readonly headers?: Fields | undefined;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is; a function makes it for each attempt. A stream is not sent twice: use it with `retriesMax: 0`. */
  readonly body?: Body | (() => Body | Promise<Body>) | undefined;
}

type Stream = ReadableStream<Uint8Array>;
type Body = Exclude<NonNullable<RequestInit['body']>, ReadableStream> | Stream;

/** Returns the headers of each request of a client. */
export type HeadersOf = () => Fields | Promise<Fields>;

export type QueryValue = string | number | boolean;

/** Sends a request by method and path. Throws: `NightshiftApiError`, `NightshiftUnreachableError`, the error of a streamed body. */
export type Send = (method: string, path: string, options?: SendOptions) => Promise<Response>;

/** Creates a function that sends requests by method and path, with the key and the headers of the client. */
export function createSend(baseUrl: string, headersOf: HeadersOf, transport: Transport): Send {
  return (method, path, { query = {}, headers = {}, json, body, ...attempts } = {}) => {
    const url = `${baseUrl}${path}${searchOf(query)}`;
    const type: Fields = json === undefined ? {} : { 'content-type': 'application/json' };
    const own = withOnceKey(method, mergeHeaders(type, headers));
    const broken = new AbortController();
    const signals = [broken.signal, ...(attempts.signal == null ? [] : [attempts.signal])];
    return transport({
      ...attempts,
      signal: AbortSignal.any(signals),
      make: async (signal) => {
        const given =
          json === undefined ? await (typeof body === 'function' ? body() : body) : JSON.stringify(json);
        const sent = given instanceof ReadableStream ? watched(given, (error) => broken.abort(error)) : given;
        return new Request(url, {
          method,
          headers: mergeHeaders(await headersOf(), own),
          ...(sent === undefined ? {} : { body: sent, duplex: 'half' }),
          signal,
        });
      },
    });
  };
}

/** Passes a stream on, and tells its error: `fetch` does not say whether the body or the server failed. */
function watched(stream: Stream, onError: (error: unknown) => void): Stream {
  const reader = stream.getReader();
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          onError(error);
          throw error;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

function searchOf(query: NonNullable<SendOptions['query']>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? (value as readonly QueryValue[]) : [value as QueryValue])
      search.append(name, String(each));
  }
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}
