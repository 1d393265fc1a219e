/**
 * Lines of a message batch's result file. Each line is decoded by itself and nothing here throws, so a bad line
 * costs the step it belongs to and no other.
 */
import { isJsonObject, JSON_DEPTH_MAX, toStorableText, type JsonObject } from '../../base/json.ts';
import { isContentBlock, type ContentBlock } from '../../model/content.ts';
import type { Usage } from '../../model/usage.ts';
import { scanResultLine } from './scan.ts';

export interface DecodedAnswer {
  readonly content: readonly ContentBlock[];
  /** The content array as it stands in the line, to the character: what is stored and echoed. */
  readonly content_json: string;
  readonly stop_reason: string | null;
  readonly usage: Usage;
  readonly message_id: string | null;
  readonly model: string | null;
}

export type DecodedLine =
  | { readonly kind: 'answered'; readonly custom_id: string; readonly answer: DecodedAnswer }
  | {
      readonly kind: 'errored';
      readonly custom_id: string;
      /** Type of the inner error, such as `invalid_request_error`; `unknown_error` when the line names none. */
      readonly error_type: string;
      readonly message: string;
      readonly error_code: string | null;
    }
  | { readonly kind: 'expired' | 'canceled'; readonly custom_id: string }
  /** `custom_id` is named when it could still be made out. */
  | { readonly kind: 'unreadable'; readonly custom_id: string | null; readonly reason: string }
  | { readonly kind: 'blank' };

/** Largest count of tokens that is booked: what a Postgres `integer` holds. */
export const TOKENS_MAX = 2_147_483_647;

/** Characters of an error message that are kept. */
const MESSAGE_MAX = 2_000;

/**
 * Decodes one line, with or without its line end. Never throws.
 *
 * A last line that is `unreadable` and had no line end is the mark of a stream cut short: stream again before
 * taking it for the provider's fault.
 *
 * Odd token counts do not spoil an answer, for it is paid either way: missing ones are 0, negative ones 0, fractions
 * are rounded up, and what is beyond {@link TOKENS_MAX} is that.
 */
export function decodeResultLine(line: string): DecodedLine {
  if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
  if (line.trim() === '') return { kind: 'blank' };
  const scan = scanResultLine(line);
  if (scan.too_deep) {
    return unreadable(salvageCustomId(line), `nested deeper than ${JSON_DEPTH_MAX} levels`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return unreadable(salvageCustomId(line), 'not JSON');
  }
  if (!isJsonObject(parsed)) return unreadable(null, 'not a JSON object');
  const customId = parsed['custom_id'];
  if (typeof customId !== 'string' || customId === '') return unreadable(null, 'no custom_id');
  return decodeResult(toStorableText(customId), parsed['result'], line, scan);
}

function decodeResult(
  customId: string,
  result: unknown,
  line: string,
  scan: { readonly content_start: number; readonly content_end: number },
): DecodedLine {
  if (!isJsonObject(result)) return unreadable(customId, 'no result');
  const type = result['type'];
  switch (type) {
    case 'succeeded': {
      const message = result['message'];
      if (!isJsonObject(message)) return unreadable(customId, 'succeeded without a message');
      const content: unknown = message['content'];
      if (!Array.isArray(content)) return unreadable(customId, 'content is not an array');
      const odd = content.findIndex((block) => !isContentBlock(block));
      if (odd !== -1) return unreadable(customId, `content[${odd}] is not a content block`);
      const content_json = line.slice(scan.content_start, scan.content_end);
      return { kind: 'answered', custom_id: customId, answer: answerOf(message, content, content_json) };
    }
    case 'errored':
      return { kind: 'errored', custom_id: customId, ...errorOf(result['error']) };
    case 'expired':
    case 'canceled':
      return { kind: type, custom_id: customId };
    default: {
      const named = typeof type === 'string' ? ` '${toStorableText(type).slice(0, 64)}'` : '';
      return unreadable(customId, `unknown result type${named}`);
    }
  }
}

function answerOf(
  message: JsonObject,
  content: readonly ContentBlock[],
  content_json: string,
): DecodedAnswer {
  return {
    content,
    content_json,
    stop_reason: textOf(message['stop_reason']),
    usage: usageOf(message['usage']),
    message_id: textOf(message['id']),
    model: textOf(message['model']),
  };
}

const NO_MEMBERS: JsonObject = {};

/**
 * Cache writes are booked by their lifetime where the line tells it. Writes it does not break down are booked at the
 * one-hour price, which is the lifetime our requests ask for.
 */
function usageOf(value: unknown): Usage {
  const usage = isJsonObject(value) ? value : NO_MEMBERS;
  const writes = isJsonObject(usage['cache_creation']) ? usage['cache_creation'] : NO_MEMBERS;
  const cache_write_5m_tokens = tokensOf(writes['ephemeral_5m_input_tokens']);
  const cache_write_1h_tokens = tokensOf(writes['ephemeral_1h_input_tokens']);
  const told = cache_write_5m_tokens + cache_write_1h_tokens;
  const untold = Math.max(0, tokensOf(usage['cache_creation_input_tokens']) - told);
  return {
    input_tokens: tokensOf(usage['input_tokens']),
    output_tokens: tokensOf(usage['output_tokens']),
    cache_write_5m_tokens,
    cache_write_1h_tokens: Math.min(TOKENS_MAX, cache_write_1h_tokens + untold),
    cache_read_tokens: tokensOf(usage['cache_read_input_tokens']),
  };
}

function tokensOf(count: unknown): number {
  if (typeof count !== 'number' || !(count > 0)) return 0;
  return count >= TOKENS_MAX ? TOKENS_MAX : Math.ceil(count);
}

/** The error's own envelope lies inside the result's: `result.error.error`. Read either way. */
function errorOf(value: unknown): {
  readonly error_type: string;
  readonly message: string;
  readonly error_code: string | null;
} {
  const envelope = isJsonObject(value) ? value : NO_MEMBERS;
  const error = isJsonObject(envelope['error']) ? envelope['error'] : envelope;
  const details = error['details'];
  return {
    error_type: textOf(error['type']) ?? 'unknown_error',
    message: (textOf(error['message']) ?? '').slice(0, MESSAGE_MAX).toWellFormed(),
    error_code: isJsonObject(details) ? textOf(details['error_code']) : null,
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? toStorableText(value) : null;
}

function unreadable(custom_id: string | null, reason: string): DecodedLine {
  return { kind: 'unreadable', custom_id, reason };
}

const LEADING_CUSTOM_ID = /^\uFEFF?\s*\{\s*"custom_id"\s*:\s*"([a-zA-Z0-9_-]{1,64})"/;

/**
 * The `custom_id` at the beginning of a line that cannot be read as a whole (damaged, or too long to be held), so
 * that its step need not wait for ever. Null when the line does not begin with one.
 */
export function salvageCustomId(head: string): string | null {
  return LEADING_CUSTOM_ID.exec(head)?.[1] ?? null;
}
