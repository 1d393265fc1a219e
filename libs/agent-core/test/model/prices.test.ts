import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { batchCostNanoUsd, PRICE_TABLE_VERSION, PRICED_MODELS } from '../../src/model/prices.ts';
import { NO_USAGE, promptTokens, type Usage } from '../../src/model/usage.ts';

const tokens = fc.nat(2_147_483_647);
const usage: fc.Arbitrary<Usage> = fc.record({
  input_tokens: tokens,
  output_tokens: tokens,
  cache_write_5m_tokens: tokens,
  cache_write_1h_tokens: tokens,
  cache_read_tokens: tokens,
});

describe('what an answer costs', () => {
  // claude-sonnet-5-5: 2 $ in, 10 $ out, 2.5 $ and 4 $ cache writes, 0.2 $ cache reads for a million; half in a batch.
  test.each([
    ['nothing', {}, 0],
    ['a million tokens in', { input_tokens: 1_000_000 }, 1_000_000_000],
    ['a million tokens out', { output_tokens: 1_000_000 }, 5_000_000_000],
    ['a million written to the short cache', { cache_write_5m_tokens: 1_000_000 }, 1_250_000_000],
    ['a million written to the long cache', { cache_write_1h_tokens: 1_000_000 }, 2_000_000_000],
    ['a million read from the cache', { cache_read_tokens: 1_000_000 }, 100_000_000],
    ['one token in', { input_tokens: 1 }, 1_000],
    ['one token read from the cache', { cache_read_tokens: 1 }, 100],
    ['all of them once', { ...ones() }, 1_000 + 5_000 + 1_250 + 2_000 + 100],
  ])('%s', (_what, used, nanoUsd) => {
    expect(batchCostNanoUsd('claude-sonnet-5-5', { ...NO_USAGE, ...used })).toBe(nanoUsd);
  });

  test('is half of the realtime price, a whole number, never negative, and exact however many tokens', () => {
    fc.assert(
      fc.property(fc.constantFrom(...PRICED_MODELS), usage, (model, used) => {
        const cost = batchCostNanoUsd(model, used);
        expect(Number.isSafeInteger(cost)).toBe(true);
        expect(cost).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  test('more tokens never cost less', () => {
    fc.assert(
      fc.property(fc.constantFrom(...PRICED_MODELS), usage, usage, (model, a, b) => {
        const names = Object.keys(a) as (keyof Usage)[];
        const sum = Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as Usage;
        expect(batchCostNanoUsd(model, sum)).toBeGreaterThanOrEqual(batchCostNanoUsd(model, a) ?? Infinity);
      }),
    );
  });

  test('a model name with a date costs what the name costs', () => {
    const used = { ...NO_USAGE, input_tokens: 1000, output_tokens: 10 };
    expect(batchCostNanoUsd('claude-haiku-4-5-20261001', used)).toBe(
      batchCostNanoUsd('claude-haiku-4-5', used),
    );
  });

  test.each([
    '',
    'claude-unheard-of',
    'claude-haiku-4-5-2026',
    'constructor',
    '__proto__',
    'toString-20261001',
  ])('a model named %j has no price', (model) => {
    expect(batchCostNanoUsd(model, { ...NO_USAGE, output_tokens: 5 })).toBeNull();
  });
});

test('the price table names its version and the models it prices', () => {
  expect(PRICE_TABLE_VERSION).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  expect(PRICED_MODELS.length).toBeGreaterThan(0);
});

test('prompt tokens are all that was read, from cache or not', () => {
  expect(promptTokens(NO_USAGE)).toBe(0);
  expect(promptTokens(ones())).toBe(4);
  fc.assert(
    fc.property(usage, (used) => {
      expect(promptTokens({ ...used, output_tokens: 0 })).toBe(promptTokens(used));
    }),
  );
});

function ones(): Usage {
  return {
    input_tokens: 1,
    output_tokens: 1,
    cache_write_5m_tokens: 1,
    cache_write_1h_tokens: 1,
    cache_read_tokens: 1,
  };
}
