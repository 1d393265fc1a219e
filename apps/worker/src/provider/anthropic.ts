/**
 * Anthropic's Message Batches API behind the provider port.
 *
 * The SDK provides only headers, API version and credentials. Its conveniences are unsafe here: it sends a lost create
 * up to three times, follows a foreign `results_url` with our key, ends a cut result file without an error, and takes
 * an HTML page for a batch.
 */
import Anthropic from '@anthropic-ai/sdk';
import {
  classifyCreateFailure,
  isJsonObject,
  NightshiftError,
  type CreateFailure,
} from '@nightshift/agent-core';
import { beginExchange, type Exchange } from './exchange.ts';
import { failureOf, headersOf, redact } from './failure.ts';
import type {
  CreateOutcome,
  ListOutcome,
  ProviderPort,
  RemoteBatch,
  ResultsOutcome,
  RetrieveOutcome,
  Unavailable,
} from './port.ts';
import { createProviderClock, momentNow, type Moment, type ProviderClock } from './provider-clock.ts';
import { readBodyChunks, readText } from './read-body.ts';
import { parseRemoteBatch } from './remote-batch.ts';

export interface AnthropicOptions {
  readonly apiKey: string;
  /** For example `https://api.anthropic.com`. No other host is contacted. */
  readonly baseURL: string;
  /**
   * Timeout of list, retrieve and cancel, and of the headers of a result file.
   * Unit: ms. Default: 60,000. Node's fetch waits at most 300,000 for headers, also in `createBatch`.
   */
  readonly requestTimeoutMs?: number;
  /** Monotonic clock in ms, for the rate of result streams. Default: `performance.now`. */
  readonly now?: () => number;
}

const BATCHES = '/v1/messages/batches';
const REQUEST_TIMEOUT_MS_DEFAULT = 60_000;
const LIST_PAGE_SIZE = 1000;
const LIST_PAGES_MAX_DEFAULT = 20;
/** A full list page is far smaller: a batch takes about 600 bytes. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

/** Silences the SDK, whose debug level prints whole bodies. */
const SILENT_LOGGER = { error: ignore, warn: ignore, info: ignore, debug: ignore };
function ignore(): void {
  // Logs nothing.
}

type Answer =
  | { readonly ok: true; readonly body: unknown; readonly now: Date | null }
  | { readonly ok: false; readonly failure: CreateFailure; readonly now: Date | null };

/** Everything that the calls of one port share. */
interface Connection {
  readonly client: Anthropic;
  readonly clock: ProviderClock;
  readonly apiKey: string;
  readonly requestTimeoutMs: number;
  readonly now: (() => number) | undefined;
}

/**
 * Makes the Anthropic port: one POST per create, one request per call, no retries and no redirects.
 * Throws: `bad_configuration` for an unusable key or URL.
 */
export function anthropicProvider(options: AnthropicOptions): ProviderPort {
  checkConfiguration(options);
  const { apiKey, baseURL, requestTimeoutMs = REQUEST_TIMEOUT_MS_DEFAULT, now } = options;
  const client = new Anthropic({
    apiKey,
    baseURL,
    webhookKey: null,
    maxRetries: 0,
    logger: SILENT_LOGGER,
    logLevel: 'warn',
    // Fetch would follow a 307 or 308 and send a create again, to another address.
    fetchOptions: { redirect: 'manual' },
  });
  const clock = createProviderClock();
  const api: Connection = { client, clock, apiKey, requestTimeoutMs, now };
  return {
    provider: 'anthropic',
    clock: {
      read: () => clock.read(),
      async refresh() {
        await call(api, 'get', `${BATCHES}?limit=1`, undefined);
      },
    },
    createBatch: (body, asked) => createBatch(api, body, asked),
    listBatches: (asked) => listBatches(api, asked),
    retrieveBatch: (providerId, asked) => retrieveBatch(api, providerId, asked?.signal),
    cancelBatch: (providerId, asked) => cancelBatch(api, providerId, asked?.signal),
    streamResults: (providerId, asked) => streamResults(api, providerId, asked),
  };
}

async function createBatch(
  { client, clock, apiKey }: Connection,
  body: Blob,
  { timeoutMs, signal }: Parameters<ProviderPort['createBatch']>[1],
): Promise<CreateOutcome> {
  const exchange = beginExchange(timeoutMs, signal);
  const begun = momentNow();
  try {
    const response = await client
      .post(BATCHES, {
        // As a stream: fetch may send a body a second time if it can read it twice (it does on a 421).
        body: body.stream(),
        headers: { 'content-type': 'application/json', 'content-length': String(body.size) },
        ...requestOptions(exchange),
      })
      .asResponse();
    noteTime(clock, begun, response.headers);
    const text = await readText(response, ANSWER_BYTES_MAX);
    const batch = parseRemoteBatch(parseJson(text));
    if (batch !== null) return { outcome: 'created', batch };
    const reason = redact(`HTTP ${response.status} without a batch: ${text}`, apiKey);
    return { outcome: 'unknown', reason, status: response.status };
  } catch (error) {
    noteTime(clock, begun, headersOf(error));
    return toCreateOutcome(failureOf(error, exchange, apiKey));
  } finally {
    exchange.close();
  }
}

async function listBatches(
  api: Connection,
  asked: Parameters<ProviderPort['listBatches']>[0],
): Promise<ListOutcome> {
  const found = new Map<string, RemoteBatch>();
  const end = (complete: boolean, unavailable: Unavailable | null = null): ListOutcome => ({
    batches: [...found.values()],
    complete,
    unavailable,
    now,
  });
  let now: Date | null = null;
  const pagesMax = asked.limitPages ?? LIST_PAGES_MAX_DEFAULT;
  let cursor: string | null = null;
  let isWhole = true;
  for (let page = 0; page < pagesMax; page++) {
    const query = `?limit=${LIST_PAGE_SIZE}${cursor === null ? '' : `&after_id=${encodeURIComponent(cursor)}`}`;
    const answer = await call(api, 'get', BATCHES + query, asked.signal);
    now ??= answer.now;
    if (!answer.ok) return end(false, toUnavailable(answer.failure));
    const { body } = answer;
    if (!isJsonObject(body) || !Array.isArray(body['data'])) {
      return end(false, unavailable('the list of batches could not be read'));
    }
    let oldest: RemoteBatch | null = null;
    for (const entry of body['data'] as unknown[]) {
      const batch = parseRemoteBatch(entry);
      if (batch === null) {
        // The unreadable entry may be the batch that the caller looks for.
        isWhole = false;
        continue;
      }
      oldest = batch;
      if (batch.created_at >= asked.createdAfter) found.set(batch.provider_id, batch);
    }
    if (oldest !== null && oldest.created_at < asked.createdAfter) return end(isWhole);
    if (body['has_more'] === false) return end(isWhole);
    const next: unknown = body['last_id'] ?? oldest?.provider_id;
    // A cursor that does not advance would loop for ever, and without `has_more: false` a page may not be the last.
    if (body['has_more'] !== true || typeof next !== 'string' || next === cursor) return end(false);
    cursor = next;
  }
  return end(false);
}

async function retrieveBatch(
  api: Connection,
  providerId: string,
  signal: AbortSignal | undefined,
): Promise<RetrieveOutcome> {
  return toRetrieveOutcome(await call(api, 'get', pathOf(providerId), signal));
}

async function cancelBatch(
  api: Connection,
  providerId: string,
  signal: AbortSignal | undefined,
): Promise<RetrieveOutcome> {
  const answer = await call(api, 'post', `${pathOf(providerId)}/cancel`, signal);
  // The batch may have ended in the meantime. Its refusal status is undocumented, so the batch itself is read.
  const isRefused = !answer.ok && isRefusal(answer.failure, [400, 409, 422]);
  return isRefused ? retrieveBatch(api, providerId, signal) : toRetrieveOutcome(answer);
}

async function streamResults(
  api: Connection,
  providerId: string,
  { idleTimeoutMs, rate, signal }: Parameters<ProviderPort['streamResults']>[1],
): Promise<ResultsOutcome> {
  const { client, clock, apiKey } = api;
  const exchange = beginExchange(api.requestTimeoutMs, signal);
  const begun = momentNow();
  try {
    // By path on our own host: `results_url` may name another host, which must not receive the key.
    const response = await client
      .get(`${pathOf(providerId)}/results`, {
        headers: { accept: 'application/binary' },
        ...requestOptions(exchange),
      })
      .asResponse();
    exchange.stopTimer();
    noteTime(clock, begun, response.headers);
    // The API's own content type varies, so it only serves to recognize a proxy's page.
    const isPage = /^text\/html\b/i.test(response.headers.get('content-type') ?? '');
    if (response.body !== null && !isPage) {
      const body = response.body as ReadableStream<Uint8Array>;
      const pace = { idleTimeoutMs, rate, now: api.now };
      return { outcome: 'open', chunks: readBodyChunks(body, { ...pace, exchange, apiKey }) };
    }
    exchange.close();
    const problem = isPage ? 'with a page of HTML instead of' : 'without';
    return unavailable(`HTTP ${response.status} ${problem} a result file`, response.status);
  } catch (error) {
    noteTime(clock, begun, headersOf(error));
    const failure = failureOf(error, exchange, apiKey);
    exchange.close();
    if (!isRefusal(failure, [400, 404, 409, 410])) return toUnavailable(failure);
    return whyNoResults(api, providerId, signal);
  }
}

/** Reads the batch to distinguish the three reasons for a missing result file. */
async function whyNoResults(
  api: Connection,
  providerId: string,
  signal: AbortSignal | undefined,
): Promise<ResultsOutcome> {
  const retrieved = await retrieveBatch(api, providerId, signal);
  if (retrieved.outcome !== 'found') return retrieved;
  const { archived_at } = retrieved.batch;
  return archived_at === null ? { outcome: 'not_ready' } : { outcome: 'archived', archived_at };
}

async function call(
  { client, clock, apiKey, requestTimeoutMs }: Connection,
  method: 'get' | 'post',
  path: string,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const exchange = beginExchange(requestTimeoutMs, signal);
  const begun = momentNow();
  let now: Date | null = null;
  try {
    const response = await client[method](path, requestOptions(exchange)).asResponse();
    now = noteTime(clock, begun, response.headers);
    return { ok: true, body: parseJson(await readText(response, ANSWER_BYTES_MAX)), now };
  } catch (error) {
    const failure = failureOf(error, exchange, apiKey);
    return { ok: false, failure, now: now ?? noteTime(clock, begun, headersOf(error)) };
  } finally {
    exchange.close();
  }
}

/** Passes the `Date` header of an answer to the clock and returns its time. */
function noteTime(clock: ProviderClock, begun: Moment, headers: Headers | undefined): Date | null {
  const date = headers?.get('date') ?? null;
  clock.note(begun, date);
  const time = date === null ? Number.NaN : Date.parse(date);
  return Number.isNaN(time) ? null : new Date(time);
}

function checkConfiguration({ apiKey, baseURL }: AnthropicOptions): void {
  // A key copied from a settings file may keep its quotes. JSON escapes quotes and backslashes, so `redact` would not
  // find such a key in a message.
  if (!/^[\x21-\x7e]+$/.test(apiKey) || /["'\\]/.test(apiKey)) {
    throw new NightshiftError(
      'bad_configuration',
      'ANTHROPIC_API_KEY must be printable ASCII without spaces, quotes and backslashes; check it for a line break.',
    );
  }
  const url = URL.parse(baseURL);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new NightshiftError(
      'bad_configuration',
      'ANTHROPIC_BASE_URL must be an http(s) URL without user and password, such as https://api.anthropic.com.',
    );
  }
}

function requestOptions(exchange: Exchange): { maxRetries: 0; signal: AbortSignal; timeout: number } {
  return { maxRetries: 0, signal: exchange.signal, timeout: Math.ceil(exchange.timeoutMs) };
}

function pathOf(providerId: string): string {
  return `${BATCHES}/${encodeURIComponent(providerId)}`;
}

/** Parses a JSON text; undefined for any other text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** True when the provider itself, not a proxy, answered with one of these statuses. */
function isRefusal(failure: CreateFailure, statuses: readonly number[]): boolean {
  return failure.has_provider_shape && failure.status !== null && statuses.includes(failure.status);
}

function toCreateOutcome(failure: CreateFailure): CreateOutcome {
  const verdict = classifyCreateFailure(failure);
  const { status, message } = failure;
  if (verdict.verdict === 'unknown' || status === null) {
    return { outcome: 'unknown', reason: verdict.verdict === 'unknown' ? verdict.reason : message, status };
  }
  return { outcome: 'refused', what: verdict.what, status, message, retry_after_ms: verdict.retry_after_ms };
}

function toRetrieveOutcome(answer: Answer): RetrieveOutcome {
  if (!answer.ok) {
    return isRefusal(answer.failure, [404]) ? { outcome: 'not_found' } : toUnavailable(answer.failure);
  }
  const batch = parseRemoteBatch(answer.body);
  return batch === null ? unavailable('the batch could not be read') : { outcome: 'found', batch };
}

function toUnavailable({ message, status, retry_after_ms }: CreateFailure): Unavailable {
  const reason = status === null ? message : `HTTP ${status}: ${message}`;
  return { outcome: 'unavailable', reason, status, retry_after_ms };
}

function unavailable(reason: string, status: number | null = null): Unavailable {
  return { outcome: 'unavailable', reason, status, retry_after_ms: null };
}
