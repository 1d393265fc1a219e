/**
 * Lines of a message batch's result file. Each line is decoded by itself and nothing here throws, so a bad line costs
 * only its own step.
 */
import { isJsonObject, JSON_DEPTH_MAX, toStorableText, type JsonObject } from '../../base/json.ts';
import { isContentBlock, type ContentBlock } from '../../model/content.ts';
import type { Usage } from '../../model/usage.ts';
import { salvageCustomId, salvageMessage, usageAtEnd, withoutDepths } from './salvage.ts';
import { scanResultLine, type LineScan } from './scan.ts';

/** The cost facts of a message, whatever else is wrong with it. */
export interface DecodedBill {
  readonly stop_reason: string | null;
  readonly usage: Usage;
  readonly message_id: string | null;
  readonly model: string | null;
}

export interface DecodedAnswer extends DecodedBill {
  readonly content: readonly ContentBlock[];
  /** The content array, exact to the character, for storage and echo. */
  readonly content_json: string;
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
  /** A whole line whose answer can neither be stored nor sent back; a retry does not help. */
  | {
      readonly kind: 'unusable';
      readonly custom_id: string;
      readonly reason: string;
      readonly bill: DecodedBill;
    }
  /** A line that is cut, garbled or without an answer; with `custom_id` and `bill` where recoverable. */
  | {
      readonly kind: 'unreadable';
      readonly custom_id: string | null;
      readonly reason: string;
      readonly bill: DecodedBill | null;
    }
  | { readonly kind: 'blank' };

/** Largest token count booked: the maximum of a Postgres `integer`. */
export const TOKENS_MAX = 2_147_483_647;
/** Most web searches booked of an answer. */
export const WEB_SEARCHES_MAX = 1_000_000;

/** Characters kept of an error message. */
const MESSAGE_MAX = 2_000;

/**
 * Decodes a line, with or without its line end. Never throws.
 * An `unreadable` last line without line end marks a cut stream: stream again before blaming the provider.
 * Odd token counts do not spoil a paid answer. Missing and negative counts are 0, fractions are rounded up, and {@link
 * TOKENS_MAX} is the cap.
 */
export function decodeResultLine(line: string): DecodedLine {
  if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
  if (line.trim() === '') return { kind: 'blank' };
  const scan = scanResultLine(line);
  let parsed: unknown;
  try {
    parsed = JSON.parse(scan.too_deep ? withoutDepths(line) : line);
  } catch {
    return unreadable(salvageCustomId(line), 'not JSON', billOf(salvageMessage(line)));
  }
  if (!isJsonObject(parsed)) return unreadable(null, 'not a JSON object');
  const customId = parsed['custom_id'];
  const result = parsed['result'];
  if (typeof customId !== 'string' || customId === '')
    return unreadable(null, 'no custom_id', isJsonObject(result) ? billOf(result['message']) : null);
  return decodeResult(toStorableText(customId), result, line, scan);
}

/** Decodes a line that is too long for memory, by its first and last characters. */
export function decodeLongLine(line: {
  readonly head: string;
  readonly tail: string;
  readonly byte_length: number;
}): DecodedLine {
  const custom_id = salvageCustomId(line.head);
  const bill = billAtEnd(line.head, line.tail);
  const reason = `${line.byte_length} bytes long`;
  return custom_id === null || bill === null
    ? unreadable(custom_id, reason, bill)
    : { kind: 'unusable', custom_id, reason, bill };
}

/** Reads the bill of a line from its first and last characters alone; null where they do not tell it. */
export function billAtEnd(head: string, tail: string): DecodedBill | null {
  const usage = usageAtEnd(tail);
  return usage === null ? null : billOf({ ...salvageMessage(head), usage });
}

function decodeResult(customId: string, result: unknown, line: string, scan: LineScan): DecodedLine {
  /** Without usage it is no paid answer, and a retry may help. */
  const unusable = (reason: string, message?: unknown): DecodedLine => {
    const bill = billOf(message);
    return bill === null
      ? unreadable(customId, reason)
      : { kind: 'unusable', custom_id: customId, reason, bill };
  };
  if (!isJsonObject(result)) return unusable('no result');
  const type = result['type'];
  const message = result['message'];
  switch (type) {
    case 'succeeded': {
      if (scan.too_deep) return unusable(`nested deeper than ${JSON_DEPTH_MAX} levels`, message);
      if (!isJsonObject(message)) return unusable('succeeded without a message');
      const content: unknown = message['content'];
      if (!Array.isArray(content)) return unusable('content is not an array', message);
      const odd = content.findIndex((block) => !isContentBlock(block));
      if (odd !== -1) return unusable(`content[${odd}] is not a content block`, message);
      const content_json = line.slice(scan.content_start, scan.content_end);
      return {
        kind: 'answered',
        custom_id: customId,
        answer: { content, content_json, ...billFrom(message) },
      };
    }
    case 'errored':
      return { kind: 'errored', custom_id: customId, ...errorOf(result['error']) };
    case 'expired':
    case 'canceled':
      return { kind: type, custom_id: customId };
    default: {
      const named = typeof type === 'string' ? ` '${toStorableText(type).slice(0, 64)}'` : '';
      return unusable(`unknown result type${named}`, message);
    }
  }
}

/** Reads the cost facts of a message; null without usage. */
function billOf(message: unknown): DecodedBill | null {
  return isJsonObject(message) && isJsonObject(message['usage']) ? billFrom(message) : null;
}

function billFrom(message: JsonObject): DecodedBill {
  return {
    stop_reason: textOf(message['stop_reason']),
    usage: usageOf(message['usage']),
    message_id: textOf(message['id']),
    model: textOf(message['model']),
  };
}

const NO_MEMBERS: JsonObject = {};

/**
 * Reads the counts of tokens and web searches. Cache writes are booked by their lifetime where the line tells it.
 * Other writes count at the one-hour price, the lifetime that requests ask for.
 */
function usageOf(value: unknown): Usage {
  const usage = isJsonObject(value) ? value : NO_MEMBERS;
  const writes = isJsonObject(usage['cache_creation']) ? usage['cache_creation'] : NO_MEMBERS;
  const cache_write_5m_tokens = countOf(writes['ephemeral_5m_input_tokens']);
  const cache_write_1h_tokens = countOf(writes['ephemeral_1h_input_tokens']);
  const itemised = cache_write_5m_tokens + cache_write_1h_tokens;
  const served = isJsonObject(usage['server_tool_use']) ? usage['server_tool_use'] : NO_MEMBERS;
  const web_searches = Math.min(WEB_SEARCHES_MAX, countOf(served['web_search_requests']));
  const unitemised = Math.max(0, countOf(usage['cache_creation_input_tokens']) - itemised);
  return {
    input_tokens: countOf(usage['input_tokens']),
    output_tokens: countOf(usage['output_tokens']),
    cache_write_5m_tokens,
    cache_write_1h_tokens: Math.min(TOKENS_MAX, cache_write_1h_tokens + unitemised),
    cache_read_tokens: countOf(usage['cache_read_input_tokens']),
    ...(web_searches === 0 ? {} : { web_searches }),
  };
}

function countOf(count: unknown): number {
  if (typeof count !== 'number' || !(count > 0)) return 0;
  return count >= TOKENS_MAX ? TOKENS_MAX : Math.ceil(count);
}

/** Reads an error, with or without its own envelope: `result.error.error`. */
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

function unreadable(custom_id: string | null, reason: string, bill: DecodedBill | null = null): DecodedLine {
  return { kind: 'unreadable', custom_id, reason, bill };
}
