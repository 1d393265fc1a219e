/**
 * Anthropic's Message Batches API behind the provider port.
 *
 * The SDK contributes headers, API version and credentials, and nothing of its convenience: it would send a lost
 * create up to three times, follow a foreign `results_url` with our key, end a cut result file without an error, and
 * take a page of HTML for a batch.
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
  MinimalRate,
  ProviderPort,
  RemoteBatch,
  ResultsOutcome,
  RetrieveOutcome,
  Unavailable,
} from './port.ts';
import { createProviderClock, momentNow, type Moment } from './provider-clock.ts';
import { readBodyChunks, readText } from './read-body.ts';
import { parseRemoteBatch } from './remote-batch.ts';

export interface AnthropicOptions {
  readonly apiKey: string;
  /** Such as `https://api.anthropic.com`; the only host that is ever contacted. */
  readonly baseURL: string;
  /**
   * Milliseconds for each exchange but create: list, retrieve, cancel, and the headers of a result file.
   * Default 60,000. Node's fetch waits at most 300,000 for headers, whatever is asked here or of `createBatch`.
   */
  readonly requestTimeoutMs?: number;
  /** Monotonic milliseconds, for the rate of result streams; default `performance.now`. */
  readonly now?: () => number;
}

const BATCHES = '/v1/messages/batches';
const REQUEST_TIMEOUT_MS_DEFAULT = 60_000;
const LIST_PAGE_SIZE = 1000;
const LIST_PAGES_MAX_DEFAULT = 20;
/** A batch takes about 600 bytes, so a full page of a list is far below. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

/** At its debug level the SDK prints whole bodies, so it is given no voice. */
const SILENT_LOGGER = { error: ignore, warn: ignore, info: ignore, debug: ignore };
function ignore(): void {
  // Nothing is kept.
}

type Answer =
  | { readonly ok: true; readonly body: unknown; readonly now: Date | null }
  | { readonly ok: false; readonly failure: CreateFailure; readonly now: Date | null };

/**
 * The Anthropic port. One POST per create and one request per call: nothing is retried or redirected in here.
 * Throws `bad_configuration` for a key or URL that cannot be used.
 */
export function anthropicProvider(options: AnthropicOptions): ProviderPort {
  const { apiKey, baseURL } = options;
  const requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS_DEFAULT;
  checkConfiguration(options);
  const client = new Anthropic({
    apiKey,
    baseURL,
    webhookKey: null,
    maxRetries: 0,
    logger: SILENT_LOGGER,
    logLevel: 'warn',
    // A 307 or 308 would have fetch send a create again, to another address.
    fetchOptions: { redirect: 'manual' },
  });
  const clock = createProviderClock();
  /** Notes the time that an answer tells, and returns it. */
  const noteTime = (begun: Moment, headers: Headers | undefined): Date | null => {
    const date = headers?.get('date') ?? null;
    clock.note(begun, date);
    const time = date === null ? Number.NaN : Date.parse(date);
    return Number.isNaN(time) ? null : new Date(time);
  };

  async function createBatch(
    body: Blob,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<CreateOutcome> {
    const exchange = beginExchange(timeoutMs, signal);
    const begun = momentNow();
    try {
      const response = await client
        .post(BATCHES, {
          // As a stream, because fetch may send a body that it can read twice a second time (it does on a 421).
          body: body.stream(),
          headers: { 'content-type': 'application/json', 'content-length': String(body.size) },
          ...requestOptions(exchange),
        })
        .asResponse();
      noteTime(begun, response.headers);
      const text = await readText(response, ANSWER_BYTES_MAX);
      const batch = parseRemoteBatch(parseJson(text));
      if (batch !== null) return { outcome: 'created', batch };
      const reason = redact(`HTTP ${response.status} without a batch: ${text}`, apiKey);
      return { outcome: 'unknown', reason, status: response.status };
    } catch (error) {
      noteTime(begun, headersOf(error));
      return toCreateOutcome(failureOf(error, exchange, apiKey));
    } finally {
      exchange.close();
    }
  }

  async function listBatches(asked: {
    readonly createdAfter: Date;
    readonly limitPages?: number;
    readonly signal?: AbortSignal;
  }): Promise<ListOutcome> {
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
      const answer = await call('get', BATCHES + query, asked.signal);
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
          // An entry that cannot be read may be the one that is looked for.
          isWhole = false;
          continue;
        }
        oldest = batch;
        if (batch.created_at >= asked.createdAfter) found.set(batch.provider_id, batch);
      }
      if (oldest !== null && oldest.created_at < asked.createdAfter) return end(isWhole);
      if (body['has_more'] === false) return end(isWhole);
      const next: unknown = body['last_id'] ?? oldest?.provider_id;
      // A page that leads nowhere would be read for ever, and one that does not say that it is the last may not be.
      if (body['has_more'] !== true || typeof next !== 'string' || next === cursor) return end(false);
      cursor = next;
    }
    return end(false);
  }

  async function retrieveBatch(
    providerId: string,
    asked: { readonly signal?: AbortSignal } = {},
  ): Promise<RetrieveOutcome> {
    return toRetrieveOutcome(await call('get', pathOf(providerId), asked.signal));
  }

  async function cancelBatch(
    providerId: string,
    asked: { readonly signal?: AbortSignal } = {},
  ): Promise<RetrieveOutcome> {
    const answer = await call('post', `${pathOf(providerId)}/cancel`, asked.signal);
    // It may have ended in the meantime; which refusal that brings is not documented, so the batch itself is asked.
    const isRefused = !answer.ok && isRefusal(answer.failure, [400, 409, 422]);
    return isRefused ? retrieveBatch(providerId, asked) : toRetrieveOutcome(answer);
  }

  async function streamResults(
    providerId: string,
    asked: { readonly idleTimeoutMs: number; readonly rate?: MinimalRate; readonly signal?: AbortSignal },
  ): Promise<ResultsOutcome> {
    const { idleTimeoutMs, rate, signal } = asked;
    const exchange = beginExchange(requestTimeoutMs, signal);
    const begun = momentNow();
    try {
      // By path on our own host: where `results_url` points is not ours to send a key to.
      const response = await client
        .get(`${pathOf(providerId)}/results`, {
          headers: { accept: 'application/binary' },
          ...requestOptions(exchange),
        })
        .asResponse();
      exchange.stopTimer();
      noteTime(begun, response.headers);
      // Of the content type the API itself is unsure, so only what a proxy would send is told by it.
      const isPage = /^text\/html\b/i.test(response.headers.get('content-type') ?? '');
      if (response.body !== null && !isPage) {
        const body = response.body as ReadableStream<Uint8Array>;
        const pace = { idleTimeoutMs, rate, now: options.now };
        return { outcome: 'open', chunks: readBodyChunks(body, { ...pace, exchange, apiKey }) };
      }
      exchange.close();
      const what = isPage ? 'with a page of HTML instead of' : 'without';
      return unavailable(`HTTP ${response.status} ${what} a result file`, response.status);
    } catch (error) {
      noteTime(begun, headersOf(error));
      const failure = failureOf(error, exchange, apiKey);
      exchange.close();
      if (!isRefusal(failure, [400, 404, 409, 410])) return toUnavailable(failure);
      return whyNoResults(providerId, signal);
    }
  }

  /** A missing result file has three meanings, which the batch itself tells apart. */
  async function whyNoResults(providerId: string, signal: AbortSignal | undefined): Promise<ResultsOutcome> {
    const retrieved = await retrieveBatch(providerId, signal === undefined ? {} : { signal });
    if (retrieved.outcome !== 'found') return retrieved;
    const { archived_at } = retrieved.batch;
    return archived_at === null ? { outcome: 'not_ready' } : { outcome: 'archived', archived_at };
  }

  async function call(
    method: 'get' | 'post',
    path: string,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    const exchange = beginExchange(requestTimeoutMs, signal);
    const begun = momentNow();
    let now: Date | null = null;
    try {
      const response = await client[method](path, requestOptions(exchange)).asResponse();
      now = noteTime(begun, response.headers);
      return { ok: true, body: parseJson(await readText(response, ANSWER_BYTES_MAX)), now };
    } catch (error) {
      return {
        ok: false,
        failure: failureOf(error, exchange, apiKey),
        now: now ?? noteTime(begun, headersOf(error)),
      };
    } finally {
      exchange.close();
    }
  }

  return {
    provider: 'anthropic',
    clock: {
      read: () => clock.read(),
      async refresh() {
        await call('get', `${BATCHES}?limit=1`, undefined);
      },
    },
    createBatch,
    listBatches,
    retrieveBatch,
    cancelBatch,
    streamResults,
  };
}

function checkConfiguration({ apiKey, baseURL }: AnthropicOptions): void {
  // Quotes come with a key that was copied whole from a settings file. Within JSON they and backslashes are written in
  // another way, and a key that holds them would not be found where it is to be taken out of a message.
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

/** The value of a JSON text, or undefined for any other text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The provider itself (and no proxy on the way) answered with one of these statuses. */
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
