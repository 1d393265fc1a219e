import { adminOf } from './admin.ts';
import { agentsOf } from './agents.ts';
import { batchesOf } from './batches.ts';
import { createCall } from './call.ts';
import { explainOlderApi } from './errors.ts';
import { eventsOf, type EventsOptions } from './events.ts';
import { mcpServersOf } from './mcp-servers.ts';
import { memoryOf } from './memory.ts';
import { runsOf } from './runs.ts';
import { schedulesOf } from './schedules.ts';
import { secretsOf } from './secrets.ts';
import { createSend, type HeadersOf } from './send.ts';
import { toolsOf } from './tools.ts';
import { createTransport, type Retry, type Transport } from './transport.ts';

export interface NightshiftOptions {
  /** Address of the API. Default: `http://127.0.0.1:8283`. */
  readonly url?: string;
  /** Sent as a bearer token. Default: none; a browser has its cookie. */
  readonly apiKey?: string | undefined;
  /** Retries of a request without an answer, or with the answer "not now". Default: 4. */
  readonly retriesMax?: number;
  /** Time for an ordinary request and its answer, per attempt; uploads, downloads and events have none. Default: 60,000. */
  readonly timeoutMs?: number;
  /** More headers, or a function that returns them for each attempt. */
  readonly headers?: Readonly<Record<string, string>> | HeadersOf;
  /** Called before the client waits for a retry. */
  readonly onRetry?: (retry: Retry) => void;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

const URL_DEFAULT = 'http://127.0.0.1:8283';
const RETRIES_MAX = 4;
const TIMEOUT_MS = 60_000;

/** The client of the API. */
export type Nightshift = ReturnType<typeof createNightshift>;

/**
 * Creates a client. Every function throws `NightshiftApiError` if the API refuses, and `NightshiftUnreachableError` if
 * no server answers; lists are asked for page by page while they are read.
 */
export function createNightshift({
  url: given = URL_DEFAULT,
  apiKey,
  headers,
  ...options
}: NightshiftOptions) {
  const url = toBaseUrl(given);
  const transport = createTransport({
    fetch: options.fetch ?? ((request) => globalThis.fetch(request)),
    retriesMax: options.retriesMax ?? RETRIES_MAX,
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    onRetry: options.onRetry ?? (() => undefined),
  });
  const headersOf: HeadersOf = async () => ({
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    ...(await (typeof headers === 'function' ? headers() : headers)),
  });
  const known: Transport = (attempts) => transport(attempts).catch(explainOlderApi);
  const call = createCall(url, headersOf, known);
  const send = createSend(url, headersOf, known);
  return {
    agents: agentsOf(call, send),
    batches: batchesOf(call, send),
    memory: memoryOf(call),
    runs: runsOf(call),
    schedules: schedulesOf(call),
    tools: toolsOf(call),
    mcpServers: mcpServersOf(call),
    secrets: secretsOf(call),
    admin: adminOf(call),
    /** Streams the events of all batches; goes on after a cut. */
    events: (options: EventsOptions = {}) => eventsOf(send, options),
    /** Sends any request. Throws like all functions, and for refusals too. */
    request: createSend(url, headersOf, transport),
  };
}

/** Throws: if it is no address of a server. */
function toBaseUrl(url: string): string {
  if (URL.canParse(url) && /^https?:/.test(url)) return url.replace(/\/+$/, '');
  throw new TypeError(`The url of the API is '${url}': pass an address like ${URL_DEFAULT}.`);
}
