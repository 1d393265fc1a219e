/** Failures of provider calls, described in texts that are safe to log. */
import { APIError } from '@anthropic-ai/sdk';
import { isJsonObject, RETRY_AFTER_MS_MAX, toStorableText, type CreateFailure } from '@nightshift/agent-core';
import type { Exchange } from './exchange.ts';

const REASON_CHARS_MAX = 500;

/** Converts an error of the SDK. The message never holds the credential, wherever the text comes from. */
export function failureOf(error: unknown, exchange: Exchange, apiKey: string): CreateFailure {
  const message = redact(describe(error, exchange), apiKey);
  if (!(error instanceof APIError) || error.status === undefined) {
    return {
      status: null,
      error_type: null,
      error_code: null,
      has_provider_shape: false,
      retry_after_ms: null,
      message,
    };
  }
  // The SDK's types for these fields depend on type parameters that are unset here.
  const status = error.status as number;
  const headers = error.headers as Headers | undefined;
  const body: unknown = error.error;
  return {
    status,
    error_type: error.type,
    error_code: error.errorCode,
    has_provider_shape: hasProviderShape(status, body),
    retry_after_ms: headers === undefined ? null : retryAfterMsOf(headers),
    message,
  };
}

/** Returns the response headers of an SDK error; undefined without a response. */
export function headersOf(error: unknown): Headers | undefined {
  return error instanceof APIError ? (error.headers as Headers | undefined) : undefined;
}

/** Checks for `{"type":"error","error":{"type":…}}`. The edge answers 413 without the outer type. */
function hasProviderShape(status: number, body: unknown): boolean {
  if (!isJsonObject(body) || !isJsonObject(body['error'])) return false;
  return typeof body['error']['type'] === 'string' && (body['type'] === 'error' || status === 413);
}

/**
 * Reads the wait from `retry-after-ms`, or from `retry-after` in seconds or as a date; null without a valid header.
 * Unit: ms, from 0 to {@link RETRY_AFTER_MS_MAX}.
 */
export function retryAfterMsOf(headers: Headers, now: number = Date.now()): number | null {
  const inMs = numberOf(headers.get('retry-after-ms'));
  const given = headers.get('retry-after');
  const seconds = numberOf(given);
  let wait = inMs ?? (seconds === null ? null : seconds * 1000);
  if (wait === null && given !== null) wait = Date.parse(given) - now;
  if (wait === null || Number.isNaN(wait)) return null;
  return Math.ceil(Math.min(Math.max(wait, 0), RETRY_AFTER_MS_MAX));
}

function numberOf(text: string | null): number | null {
  if (text === null || text === '') return null;
  const number = Number(text);
  return Number.isNaN(number) ? null : number;
}

function describe(error: unknown, exchange: Exchange): string {
  if (exchange.hasTimedOut()) return `no complete answer within ${exchange.timeoutMs} ms`;
  if (exchange.signal.aborted) return 'aborted by the caller';
  if (error instanceof APIError && error.status !== undefined) {
    const body: unknown = error.error;
    const inner = isJsonObject(body) && isJsonObject(body['error']) ? body['error']['message'] : undefined;
    return typeof inner === 'string' ? inner : error.message.replace(/^\d+ /, '');
  }
  return reasonOf(error);
}

/** Joins messages and codes along the chain of causes: `fetch failed: read ECONNRESET`. */
export function reasonOf(error: unknown): string {
  const parts: string[] = [];
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    const { code } = cause as NodeJS.ErrnoException;
    const part = (cause.message || code || cause.name).replace(/\.$/, '');
    if (!parts.includes(part)) parts.push(part);
    if (code !== undefined && !parts.some((part) => part.includes(code))) parts.push(code);
  }
  return parts.length === 0 ? String(error) : parts.join(': ');
}

/** Replaces the credential in a text, makes it storable and cuts it to the length of a log line. */
export function redact(text: string, apiKey: string): string {
  return toStorableText(text.replaceAll(apiKey, '[key]').slice(0, REASON_CHARS_MAX));
}
