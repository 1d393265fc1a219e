import { z } from 'zod';
import { NightshiftError } from '../base/errors.ts';
import { parseModelHandle } from './definition.ts';
import shipped from './prices.json' with { type: 'json' };
import { promptTokens, type Usage } from './usage.ts';

/** US dollars per million tokens, at the realtime price. */
interface Rates {
  readonly input: number;
  readonly cache_write_5m: number;
  readonly cache_write_1h: number;
  readonly cache_read: number;
  readonly output: number;
}

/** Prices and limits of a model. */
export interface ModelPrice extends Rates {
  /**
   * Maximum length of a prompt.
   * Unit: tokens.
   */
  readonly context_window: number;
  /** Largest accepted `max_tokens`. */
  readonly output_tokens_max: number;
  /** Rates of a whole request with a prompt longer than `above_tokens`. */
  readonly long_prompt?: (Rates & { readonly above_tokens: number }) | undefined;
}

/** A price table. A cost is computed by the table in force when the answer arrived. */
export interface PriceTable {
  readonly version: string;
  /** Batch price as a share of the realtime price. */
  readonly batch_factor: number;
  /** US dollars per thousand web searches; the same in a batch. */
  readonly web_search_per_1000: number;
  /** A map, because model names come from outside and an object inherits `constructor`. */
  readonly models: ReadonlyMap<string, ModelPrice>;
}

const rate = z.number().min(0).max(100_000);
const rates = {
  input: rate,
  cache_write_5m: rate,
  cache_write_1h: rate,
  cache_read: rate,
  output: rate,
};
const tokens = z.int().min(1).max(1_000_000_000);

const tableFile = z.strictObject({
  version: z.string().regex(/^\d{4}-\d{2}-\d{2}/, 'must begin with a date, YYYY-MM-DD'),
  currency: z.literal('USD'),
  unit: z.literal('per million tokens, realtime'),
  batch_factor: z.number().gt(0).max(1),
  // Tables of earlier releases have none.
  web_search_per_1000: rate.default(shipped.web_search_per_1000),
  models: z.record(
    z.string().min(1),
    z
      .strictObject({
        ...rates,
        context_window: tokens,
        output_tokens_max: tokens,
        long_prompt: z.strictObject({ above_tokens: tokens, ...rates }).optional(),
      })
      .refine(
        ({ long_prompt: long, ...base }) =>
          long === undefined ||
          (Object.keys(rates) as (keyof Rates)[]).every((column) => long[column] >= base[column]),
        // The reservation for a prompt must cover every shorter prompt.
        { path: ['long_prompt'], error: 'must not be cheaper than the rates of short prompts' },
      ),
  ),
});

/**
 * Reads the price table from the file `path`, or returns the shipped table without a path.
 * Throws: `bad_configuration`, which names PRICES_FILE and every invalid place.
 */
export function loadPriceTable(path: string | undefined, readText: (path: string) => string): PriceTable {
  if (path === undefined) return SHIPPED_PRICES;
  let json: unknown;
  try {
    json = JSON.parse(readText(path));
  } catch (cause) {
    const wrong = cause instanceof SyntaxError ? 'is not JSON' : 'cannot be read';
    throw new NightshiftError('bad_configuration', `PRICES_FILE: ${path} ${wrong}.`, { cause });
  }
  return toPriceTable(json);
}

function toPriceTable(json: unknown): PriceTable {
  const parsed = tableFile.safeParse(json);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new NightshiftError(
      'bad_configuration',
      `PRICES_FILE: the price table is not usable: ${wrong.join('; ')}.`,
    );
  }
  const { models, version, batch_factor, web_search_per_1000 } = parsed.data;
  return { version, batch_factor, web_search_per_1000, models: new Map(Object.entries(models)) };
}

/** The price table of this release. */
export const SHIPPED_PRICES: PriceTable = toPriceTable(shipped);

/** Returns the prices of a model by the provider's name, with or without a date; null for an unknown model. */
export function modelPrice(table: PriceTable, modelName: string): ModelPrice | null {
  return table.models.get(modelName) ?? table.models.get(modelName.replace(/-\d{8}$/, '')) ?? null;
}

/** Returns why a handle names no model of the table, with the handles that do; null for a known model. */
export function unknownModel(table: PriceTable, handle: string): string | null {
  const parsed = parseModelHandle(handle);
  if (parsed?.provider === 'anthropic' && modelPrice(table, parsed.name) !== null) return null;
  const known = [...table.models.keys()].map((name) => `anthropic/${name}`);
  return `names the unknown model '${handle}'; the known models are ${known.join(', ')}`;
}

/**
 * Computes the cost of an answer at the batch price.
 * Null for a model without a price, as unknown is not zero.
 * Unit: billionths of a US dollar. One dollar per million tokens is 1,000 billionths per token, and one per
 * thousand searches a million billionths per search.
 */
export function batchCostNanoUsd(table: PriceTable, modelName: string, usage: Usage): number | null {
  const price = modelPrice(table, modelName);
  if (price === null) return null;
  const { long_prompt: long } = price;
  const at = long !== undefined && promptTokens(usage) > long.above_tokens ? long : price;
  const perMillion =
    usage.input_tokens * at.input +
    usage.cache_write_5m_tokens * at.cache_write_5m +
    usage.cache_write_1h_tokens * at.cache_write_1h +
    usage.cache_read_tokens * at.cache_read +
    usage.output_tokens * at.output;
  const searches = (usage.web_searches ?? 0) * table.web_search_per_1000 * 1_000_000;
  return Math.round(perMillion * 1000 * table.batch_factor + searches);
}
