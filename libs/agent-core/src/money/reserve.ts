import type { ContentBlock } from '../model/content.ts';
import { isJsonObject, type Json } from '../base/json.ts';
import { batchCostNanoUsd, modelPrice, type PriceTable } from '../model/prices.ts';
import { NO_USAGE, TOOL_PROMPT_TOKENS, type Usage } from '../model/usage.ts';

/** Price columns of prompt tokens. */
const INPUT_COLUMNS = [
  'input_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
  'cache_read_tokens',
] as const satisfies readonly (keyof Usage)[];

/**
 * Returns the maximum cost of a request at the batch price.
 * Null for a model without a price, whose cap cannot be kept. Every prompt token counts by the dearest column, and all
 * of `maxTokens` as written. `searches`: the most web searches of its server tools.
 * Unit: billionths of a US dollar.
 */
export function reserveNanoUsd(
  prices: PriceTable,
  modelName: string,
  inputTokens: number,
  maxTokens: number,
  searches = 0,
): number | null {
  let worst = 0;
  for (const column of INPUT_COLUMNS) {
    const usage = { ...NO_USAGE, output_tokens: maxTokens, web_searches: searches, [column]: inputTokens };
    const cost = batchCostNanoUsd(prices, modelName, usage);
    if (cost === null) return null;
    worst = Math.max(worst, cost);
  }
  return worst;
}

/** Maximum tokens that the provider adds: its own prompt for tools, turn marks. */
const ADDED_TOKENS_MAX = 2_000;
/** Maximum tokens of an image. */
const IMAGE_TOKENS_MAX = 5_000;

/** Content whose tokens cannot be derived from its bytes. */
export interface MediaCount {
  /** Each counts {@link IMAGE_TOKENS_MAX}, inline or remote. */
  readonly images: number;
  /** Bytes of inline images. */
  readonly image_bytes: number;
  /** Documents that the provider fetches; a URL or file id does not tell their size. */
  readonly remote: number;
}

export const NO_MEDIA: MediaCount = { images: 0, image_bytes: 0, remote: 0 };
/** Content that cannot be counted: it may fill the window. */
export const UNKNOWN_MEDIA: MediaCount = { ...NO_MEDIA, remote: 1 };

/** Counts the media of a content, tool results included. */
export function countMedia(content: readonly ContentBlock[]): MediaCount {
  let images = 0;
  let imageBytes = 0;
  let remote = 0;
  const pending: Json[] = [...content];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    // Pushed singly: a very long list is too many arguments for one call.
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

/** Counts the media of a JSON list of messages. It is parsed only if it may hold an image or a document. */
export function mediaOf(messagesJson: string): MediaCount {
  if (!/"(?:image|document)"/.test(messagesJson)) return NO_MEDIA;
  const messages = JSON.parse(messagesJson) as readonly { readonly content: readonly ContentBlock[] }[];
  return countMedia(messages.flatMap(({ content }) => content));
}

/** A request, measured. */
export interface MeasuredRequest {
  /** Bytes of its JSON, images included. */
  readonly bytes: number;
  readonly media: MediaCount;
  /** The agent's context window: the most that a request may fill, whatever the price table says. */
  readonly window_tokens: number;
}

/**
 * Returns the maximum prompt of a model: the price table's or the agent's window, whichever is larger.
 * A price table may be older than a window. Infinity for an unknown model.
 */
export function windowMax(prices: PriceTable, modelName: string, windowTokens: number): number {
  const price = modelPrice(prices, modelName);
  return price === null ? Infinity : Math.max(price.context_window, windowTokens);
}

/**
 * Returns the maximum prompt tokens of a request. A token takes at least a byte, images aside, and the window bounds a
 * prompt.
 * Reservations use this bound; an estimate could let spending exceed a cap.
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

/** Share by which a token may take fewer bytes than in any sample. */
const CALIBRATION_MARGIN = 1.25;
/** Tokens that the provider adds to a request without tools. Samples count them too. */
const FRAME_TOKENS = 100;

/** A request with the density of its text. */
export interface DenseRequest extends MeasuredRequest {
  /** Maximum bytes of characters outside ASCII, which take more tokens a byte. */
  readonly dense_bytes: number;
  readonly has_tools: boolean;
}

/** Samples of a definition from which reservations rely on them. */
export const PROMPT_SAMPLES_MIN = 10;

/** Samples of the prompts of a definition. */
export interface PromptDensity {
  readonly samples: number;
  /** The fewest bytes that a token of a sample took. */
  readonly bytes_per_token_min: number;
}

/** Returns the fewest bytes of a token in the samples; null with fewer than {@link PROMPT_SAMPLES_MIN}. */
export function reliableBytesPerToken(density: PromptDensity | null): number | null {
  return density === null || density.samples < PROMPT_SAMPLES_MIN ? null : density.bytes_per_token_min;
}

/**
 * Returns the tokens to reserve for a prompt: {@link worstInputTokens}, or fewer where samples tell the fewest bytes of a token.
 * A token then takes four fifths of the fewest bytes of any sample, and at least a byte outside ASCII. A prompt that is denser
 * still costs more than its reservation: it is booked in full, and counted as an overshoot.
 */
export function inputTokensToReserve(
  prices: PriceTable,
  modelName: string,
  request: DenseRequest,
  bytesPerTokenMin: number | null,
): number {
  const worst = worstInputTokens(prices, modelName, request);
  const { bytes, media, dense_bytes, has_tools } = request;
  if (bytesPerTokenMin === null || media.remote > 0) return worst;
  const text = bytes - media.image_bytes;
  const dense = Math.min(text, dense_bytes);
  const added = has_tools ? TOOL_PROMPT_TOKENS : FRAME_TOKENS;
  const sparse = Math.ceil(((text - dense) * CALIBRATION_MARGIN) / bytesPerTokenMin);
  return Math.min(worst, dense + sparse + added + media.images * IMAGE_TOKENS_MAX);
}

/** Converts US dollars to billionths, rounded down. */
export function nanoUsdOf(usd: number): number {
  // 0.29 * 1e9 is 289999999.99…; an amount that a person writes has at most nine decimals.
  return Math.floor(Number((usd * 1e9).toPrecision(15)));
}
