import type { Prefix } from './cache/prefixes.ts';
import type { Model, Prices } from './models.ts';
import { tokensOfBytes } from './tokens.ts';

/** The billed tokens of one answer. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cache_read_tokens: number;
}

/** The shorter of the two times to live of a cache entry. */
const SHORT_TTL_MS = 300_000;

/**
 * Computes the usage of a request of `totalTokens` tokens, of which `readTokens` were read from the cache. The tokens from
 * there to each mark are written with its time to live; all tokens after the last mark are plain input.
 */
export function usageOf(
  totalTokens: number,
  outputTokens: number,
  prefixes: readonly Prefix[] = [],
  readTokens = 0,
): Usage {
  let upTo = readTokens;
  const written = { short: 0, long: 0 };
  for (const { tokens, ttlMs } of prefixes) {
    if (ttlMs === 0 || tokens <= upTo) continue;
    written[ttlMs > SHORT_TTL_MS ? 'long' : 'short'] += tokens - upTo;
    upTo = tokens;
  }
  return {
    input_tokens: totalTokens - upTo,
    output_tokens: outputTokens,
    cache_write_5m_tokens: written.short,
    cache_write_1h_tokens: written.long,
    cache_read_tokens: readTokens,
  };
}

/** Estimates the output tokens of `content`. */
export function outputTokensOf(contentJson: string): number {
  return Math.max(1, tokensOfBytes(Buffer.byteLength(contentJson)));
}

/** Prices a usage in USD, before the batch discount. */
export function listPriceUsd(model: Model, usage: Usage): number {
  const prompt =
    usage.input_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens + usage.cache_read_tokens;
  const prices: Prices =
    model.long_prompt !== undefined && prompt > model.long_prompt.above_tokens ? model.long_prompt : model;
  return (
    (usage.input_tokens * prices.input +
      usage.cache_write_5m_tokens * prices.write_5m +
      usage.cache_write_1h_tokens * prices.write_1h +
      usage.cache_read_tokens * prices.read +
      usage.output_tokens * prices.output) /
    1_000_000
  );
}

/** US dollars of a web search; the same in a batch. */
export const WEB_SEARCH_USD = 0.01;

/** Formats the wire shape of a usage as JSON. `searches`: web searches of the answer. */
export function usageJson(usage: Usage, serviceTier: 'batch' | 'standard', searches: number): string {
  const serverTools = searches > 0 ? `{"web_search_requests":${searches},"web_fetch_requests":0}` : 'null';
  return (
    `{"input_tokens":${usage.input_tokens},"output_tokens":${usage.output_tokens}` +
    `,"cache_creation_input_tokens":${usage.cache_write_5m_tokens + usage.cache_write_1h_tokens}` +
    `,"cache_read_input_tokens":${usage.cache_read_tokens}` +
    `,"cache_creation":{"ephemeral_5m_input_tokens":${usage.cache_write_5m_tokens}` +
    `,"ephemeral_1h_input_tokens":${usage.cache_write_1h_tokens}}` +
    `,"service_tier":"${serviceTier}","inference_geo":"global","speed":null` +
    `,"server_tool_use":${serverTools},"output_tokens_details":null}`
  );
}
