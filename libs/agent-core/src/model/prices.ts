import prices from './prices.json' with { type: 'json' };
import type { Usage } from './usage.ts';

/** US dollars per million tokens, at the realtime price. */
interface Price {
  readonly input: number;
  readonly cache_write_5m: number;
  readonly cache_write_1h: number;
  readonly cache_read: number;
  readonly output: number;
}

/** A map, because a model's name comes from outside and an object would know `constructor`. */
const table: ReadonlyMap<string, Price> = new Map(Object.entries(prices.models));

/** The version of the price table that costs are computed by. */
export const PRICE_TABLE_VERSION = prices.version;
export const PRICED_MODELS: readonly string[] = [...table.keys()];

/**
 * What an answer costs in billionths of a US dollar, batch discount applied; null for a model without a price.
 * One dollar per million tokens is 1,000 billionths per token.
 */
export function batchCostNanoUsd(modelName: string, usage: Usage): number | null {
  const price = table.get(modelName) ?? table.get(modelName.replace(/-\d{8}$/, ''));
  if (price === undefined) return null;
  const perMillion =
    usage.input_tokens * price.input +
    usage.cache_write_5m_tokens * price.cache_write_5m +
    usage.cache_write_1h_tokens * price.cache_write_1h +
    usage.cache_read_tokens * price.cache_read +
    usage.output_tokens * price.output;
  return Math.round(perMillion * 1000 * prices.batch_factor);
}
