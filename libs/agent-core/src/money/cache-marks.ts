import type { CacheMarks } from '../model/cache-marks.ts';
import { modelPrice, type PriceTable } from '../model/prices.ts';

/** The size of a request, its history and its likely future. */
export interface CacheFacts {
  /** Tokens of tools and static prompt. */
  readonly static_tokens: number;
  /** Tokens up to the end of the memory. */
  readonly memory_tokens: number;
  /** Tokens of the whole request. */
  readonly prompt_tokens: number;
  /** Tokens that the cache holds since the run's previous request; 0 without a mark in it, and after an hour. */
  readonly cached_tokens: number;
  /** Smallest prefix that the model caches. */
  readonly cacheable_tokens_min: number;
  /** Price of a written token, as a multiple of a plain one. */
  readonly write_factor: number;
  /** Price of a read token, as a multiple of a plain one. */
  readonly read_factor: number;
  /** Expected number of further requests of the run. */
  readonly next_requests: number;
  /** Requests of the definition in the same provider batch so far, this one included. */
  readonly sharers: number;
  /** Share of readable prefixes that the provider reads. */
  readonly hit_rate: number;
  /** Probability that a request comes within the hour after the one before. */
  readonly in_time: number;
}

/**
 * Decides which cache marks lower the expected cost of a request and its successors.
 * A marked token costs `write_factor` once. In each later request it costs `read_factor`, or `write_factor` again where the
 * provider misses or the hour is over. An unmarked token costs 1 in each request. So a mark pays only if enough further
 * requests are expected; tokens in the cache already pay at once.
 */
export function decideCacheMarks(facts: CacheFacts): CacheMarks {
  const { static_tokens, memory_tokens, prompt_tokens, cacheable_tokens_min: least } = facts;
  const { write_factor, read_factor, next_requests, sharers } = facts;
  const gainAt = (hits: number): number => 1 - hits * read_factor - (1 - hits) * write_factor;
  const extra = write_factor - 1;

  const gain = gainAt(facts.hit_rate * facts.in_time);
  const held = Math.min(facts.cached_tokens, prompt_tokens);
  const added = prompt_tokens - held;
  const end = held * gain * (1 + next_requests) + added * (next_requests * gain - extra) > 0;

  const others = (sharers - 1) * gainAt(facts.hit_rate) + sharers * next_requests * gain;
  return {
    static: static_tokens >= least && (end || others > extra),
    memory: end && memory_tokens >= least && memory_tokens < prompt_tokens,
    end: end && prompt_tokens >= least,
  };
}

/**
 * Sums the expected number of further requests of a run behind step `number`.
 * `continues(k)`: the probability that another step follows step `k`.
 */
export function expectedRequests(
  number: number,
  stepsMax: number,
  continues: (step: number) => number,
): number {
  let sum = 0;
  let chance = 1;
  for (let step = number; step < stepsMax && chance > 0.001; step++) {
    chance *= continues(step);
    sum += chance;
  }
  return sum;
}

/** Assumed hit rate, and the number of answers that it counts as. */
const HIT_RATE_PRIOR = 0.9;
const HIT_RATE_PRIOR_ANSWERS = 10;

/** Returns the expected hit rate of a model by recent answers; null without any. */
export function expectedHitRate(
  recent: { readonly hit_rate: number; readonly measured: number } | null,
): number {
  const { hit_rate, measured } = recent ?? { hit_rate: 0, measured: 0 };
  return (
    (HIT_RATE_PRIOR * HIT_RATE_PRIOR_ANSWERS + hit_rate * measured) / (HIT_RATE_PRIOR_ANSWERS + measured)
  );
}

/** The provider's rule for all models, for a model without a price. */
const WRITE_FACTOR = 2;
const READ_FACTOR = 0.1;

/** Returns the prices of written and read tokens of a model, as multiples of a plain token. */
export function cacheFactors(
  prices: PriceTable,
  modelName: string,
): Pick<CacheFacts, 'write_factor' | 'read_factor'> {
  const price = modelPrice(prices, modelName);
  if (price === null || price.input === 0) return { write_factor: WRITE_FACTOR, read_factor: READ_FACTOR };
  return {
    write_factor: price.cache_write_1h / price.input,
    read_factor: price.cache_read / price.input,
  };
}
