import type { ContentBlock } from '../model/content.ts';
import { isJsonObject, type Json } from '../base/json.ts';
import { batchCostNanoUsd, modelPrice, type PriceTable } from '../model/prices.ts';
import { NO_USAGE, type Usage } from '../model/usage.ts';

/** The columns that a prompt token may be billed by. */
const INPUT_COLUMNS = [
  'input_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
  'cache_read_tokens',
] as const satisfies readonly (keyof Usage)[];

/**
 * The most that a request may cost, in billionths of a US dollar, batch discount applied: every prompt token billed by
 * the dearest column, and all of `maxTokens` written. Null for a model without a price: then no cap can be kept.
 */
export function reserveNanoUsd(
  prices: PriceTable,
  modelName: string,
  inputTokens: number,
  maxTokens: number,
): number | null {
  let worst = 0;
  for (const column of INPUT_COLUMNS) {
    const usage = { ...NO_USAGE, output_tokens: maxTokens, [column]: inputTokens };
    const cost = batchCostNanoUsd(prices, modelName, usage);
    if (cost === null) return null;
    worst = Math.max(worst, cost);
  }
  return worst;
}

/** Tokens that the provider may add to what is sent: its own prompt for tools, turn marks. */
const ADDED_TOKENS_MAX = 2_000;
/** Tokens of the largest image that a model takes. */
const IMAGE_TOKENS_MAX = 5_000;

/** What of a request its bytes do not bound, or bound badly. */
export interface MediaCount {
  /** A picture comes to {@link IMAGE_TOKENS_MAX} at most, wherever it is. */
  readonly images: number;
  /** Bytes of those that are sent along. */
  readonly image_bytes: number;
  /** Documents that the provider fetches: an URL or a file's id says nothing about their size. */
  readonly remote: number;
}

export const NO_MEDIA: MediaCount = { images: 0, image_bytes: 0, remote: 0 };
/** What cannot be counted may hold anything: a whole window. */
export const UNKNOWN_MEDIA: MediaCount = { ...NO_MEDIA, remote: 1 };

/** Counts the media of a content, tool results included. */
export function countMedia(content: readonly ContentBlock[]): MediaCount {
  let images = 0;
  let imageBytes = 0;
  let remote = 0;
  const pending: Json[] = [...content];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    // One by one: as arguments of one call, a very long list is too many.
    if (Array.isArray(part)) for (const each of part as readonly Json[]) pending.push(each);
    if (!isJsonObject(part)) continue;
    const { type, source, content: inner } = part;
    if (inner !== undefined) pending.push(inner);
    if (type !== 'image' && type !== 'document') continue;
    const { type: kind, data } = isJsonObject(source) ? source : {};
    if (type === 'image') {
      images++;
      if (kind === 'base64' && typeof data === 'string') imageBytes += data.length;
    } else if (kind === 'url' || kind === 'file') remote++;
  }
  return { images, image_bytes: imageBytes, remote };
}

/** A request, measured. */
export interface MeasuredRequest {
  /** Of its JSON, pictures included. */
  readonly bytes: number;
  readonly media: MediaCount;
  /** The agent's context window: what its requests may fill, whatever the table says of the model. */
  readonly window_tokens: number;
}

/**
 * The longest prompt of a model: what the price table says, or the agent's window where that is larger, for a table may be
 * older than a model's window. Infinity for a model that the table does not know.
 */
export function windowMax(prices: PriceTable, modelName: string, windowTokens: number): number {
  const price = modelPrice(prices, modelName);
  return price === null ? Infinity : Math.max(price.context_window, windowTokens);
}

/**
 * The most prompt tokens that a request can come to: a token is at least a byte, pictures aside, and no prompt is longer
 * than the model's window. Reservations are made by it and not by an estimate, or what was spent could exceed a cap.
 */
export function worstInputTokens(
  prices: PriceTable,
  modelName: string,
  { bytes, media, window_tokens }: MeasuredRequest,
): number {
  const window = windowMax(prices, modelName, window_tokens);
  if (media.remote > 0 && Number.isFinite(window)) return window;
  return Math.min(window, bytes - media.image_bytes + ADDED_TOKENS_MAX + media.images * IMAGE_TOKENS_MAX);
}

/** US dollars as billionths, never more than was given. */
export function nanoUsdOf(usd: number): number {
  // 0.29 * 1e9 is 289999999.99…: what a person writes has at most nine decimals.
  return Math.floor(Number((usd * 1e9).toPrecision(15)));
}
