import { z } from 'zod';
import { NightshiftError } from '../base/errors.ts';
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

/** What the table says of a model. */
export interface ModelPrice extends Rates {
  /** Tokens of the longest prompt. */
  readonly context_window: number;
  /** The largest `max_tokens` that it takes. */
  readonly output_tokens_max: number;
  /** Rates of the whole request where its prompt is longer than `above_tokens`. */
  readonly long_prompt?: (Rates & { readonly above_tokens: number }) | undefined;
}

/** A price table. Costs are computed by the one that was in force when the answer came in. */
export interface PriceTable {
  readonly version: string;
  /** What a batch costs of the realtime price. */
  readonly batch_factor: number;
  /** A map, because a model's name comes from outside and an object would know `constructor`. */
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
        // What is reserved for a prompt must cover every shorter one.
        { path: ['long_prompt'], error: 'must not be cheaper than the rates of short prompts' },
      ),
  ),
});

/**
 * The price table in the file `path`, which `readText` reads, or the shipped one without a path. Throws
 * `bad_configuration` that names every wrong place, and PRICES_FILE, which is where the path comes from.
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
  const { version, batch_factor, models } = parsed.data;
  return { version, batch_factor, models: new Map(Object.entries(models)) };
}

/** The table that this release comes with. */
export const SHIPPED_PRICES: PriceTable = toPriceTable(shipped);

/** What the table says of a model, by the provider's name, perhaps with a date; null for one that it does not know. */
export function modelPrice(table: PriceTable, modelName: string): ModelPrice | null {
  return table.models.get(modelName) ?? table.models.get(modelName.replace(/-\d{8}$/, '')) ?? null;
}

/**
 * What an answer costs in billionths of a US dollar, batch discount applied; null for a model without a price, because
 * unknown is not nothing. One dollar per million tokens is 1,000 billionths per token.
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
  return Math.round(perMillion * 1000 * table.batch_factor);
}
