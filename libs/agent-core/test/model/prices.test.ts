import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  batchCostNanoUsd as costWith,
  loadPriceTable,
  modelPrice,
  SHIPPED_PRICES,
  unknownModel,
} from '../../src/model/prices.ts';
import { NO_USAGE, promptTokens, type Usage } from '../../src/model/usage.ts';

const batchCostNanoUsd = (model: string, used: Usage) => costWith(SHIPPED_PRICES, model, used);
const tokens = fc.nat(2_147_483_647);
const usage: fc.Arbitrary<Required<Usage>> = fc.record({
  input_tokens: tokens,
  output_tokens: tokens,
  cache_write_5m_tokens: tokens,
  cache_write_1h_tokens: tokens,
  cache_read_tokens: tokens,
  web_searches: fc.nat(1_000_000),
});

describe('a model handle', () => {
  test.each(['anthropic/claude-haiku-4-5', 'anthropic/claude-haiku-4-5-20251001'])(
    '%s is known',
    (handle) => {
      expect(unknownModel(SHIPPED_PRICES, handle)).toBeNull();
    },
  );

  test.each(['anthropic/claude-9', 'openai/claude-haiku-4-5', 'claude-haiku-4-5'])(
    '%s is unknown, and the known handles are listed',
    (handle) => {
      const message = unknownModel(SHIPPED_PRICES, handle);
      expect(message).toContain(`'${handle}'`);
      for (const name of SHIPPED_PRICES.models.keys()) expect(message).toContain(`anthropic/${name}`);
    },
  );
});

describe('the cost of an answer', () => {
  // claude-sonnet-5-5: 2 $ in, 10 $ out, 2.5 $ and 4 $ cache writes, 0.1 $ cache reads for a million; half in a batch.
  test.each([
    ['nothing', {}, 0],
    ['a million tokens in', { input_tokens: 1_000_000 }, 1_000_000_000],
    ['a million tokens out', { output_tokens: 1_000_000 }, 5_000_000_000],
    ['a million written to the short cache', { cache_write_5m_tokens: 1_000_000 }, 1_250_000_000],
    ['a million written to the long cache', { cache_write_1h_tokens: 1_000_000 }, 2_000_000_000],
    ['a million read from the cache', { cache_read_tokens: 1_000_000 }, 50_000_000],
    ['one token in', { input_tokens: 1 }, 1_000],
    ['one token read from the cache', { cache_read_tokens: 1 }, 50],
    ['a web search, at the full price', { web_searches: 1 }, 10_000_000],
    ['all of them once', { ...ones() }, 1_000 + 5_000 + 1_250 + 2_000 + 50],
  ])('%s', (_what, used, nanoUsd) => {
    expect(batchCostNanoUsd('claude-sonnet-5-5', { ...NO_USAGE, ...used })).toBe(nanoUsd);
  });

  test('is half of the realtime price, searches aside, a whole number, never negative, and exact however many tokens', () => {
    fc.assert(
      fc.property(fc.constantFrom(...SHIPPED_PRICES.models.keys()), usage, (model, used) => {
        const cost = batchCostNanoUsd(model, used);
        expect(Number.isSafeInteger(cost)).toBe(true);
        expect(cost).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  test('more tokens never cost less', () => {
    fc.assert(
      fc.property(fc.constantFrom(...SHIPPED_PRICES.models.keys()), usage, usage, (model, a, b) => {
        const names = Object.keys(a) as (keyof Usage)[];
        const sum = Object.fromEntries(names.map((name) => [name, a[name] + b[name]])) as unknown as Usage;
        expect(batchCostNanoUsd(model, sum)).toBeGreaterThanOrEqual(batchCostNanoUsd(model, a) ?? Infinity);
      }),
    );
  });

  test('a model name with a date costs the same as the name', () => {
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

describe('a price table file', () => {
  const rates = { input: 1, cache_write_5m: 1.25, cache_write_1h: 2, cache_read: 0.1, output: 5 };
  const model = { ...rates, context_window: 200_000, output_tokens_max: 64_000 };
  const file = {
    version: '2030-01-01',
    currency: 'USD',
    unit: 'per million tokens, realtime',
    batch_factor: 0.5,
    models: { 'claude-x': model },
  };
  const parse = (change: object) =>
    loadPriceTable('prices.json', () => JSON.stringify({ ...file, ...change }));

  test('the shipped table names its version and the models it prices', () => {
    expect(SHIPPED_PRICES.version).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(SHIPPED_PRICES.models.size).toBeGreaterThan(0);
  });

  test('gives cost, prompt limit and answer limit of its models', () => {
    const table = parse({ batch_factor: 1 });
    expect(costWith(table, 'claude-x-20300101', { ...NO_USAGE, output_tokens: 10 })).toBe(50_000);
    expect(modelPrice(table, 'claude-x')).toMatchObject({
      context_window: 200_000,
      output_tokens_max: 64_000,
    });
    expect(modelPrice(table, 'claude-haiku-4-5')).toBeNull();
  });

  test('prices web searches, by the shipped price if it has none', () => {
    const searched = { ...NO_USAGE, web_searches: 3 };
    expect(costWith(parse({}), 'claude-x', searched)).toBe(30_000_000);
    expect(costWith(parse({ web_search_per_1000: 5 }), 'claude-x', searched)).toBe(15_000_000);
  });

  test('may price a request by the length of its prompt, all of it', () => {
    const long_prompt = { ...rates, input: 10, output: 50, above_tokens: 100 };
    const table = parse({ models: { 'claude-x': { ...model, long_prompt } } });
    const used = { ...NO_USAGE, input_tokens: 60, cache_read_tokens: 40, output_tokens: 1 };
    expect(costWith(table, 'claude-x', used)).toBe((60 * 1_000 + 40 * 100 + 5_000) / 2);
    expect(costWith(table, 'claude-x', { ...used, input_tokens: 61 })).toBe(
      (61 * 10_000 + 40 * 100 + 50_000) / 2,
    );
  });

  test.each<[string, object, string]>([
    ['no version', { version: undefined }, 'version'],
    ['another currency', { currency: 'EUR' }, 'currency'],
    ['a negative price', { models: { x: { ...model, input: -1 } } }, 'models.x.input'],
    ['a price that is text', { models: { x: { ...model, output: '5' } } }, 'models.x.output'],
    ['a price left out', { models: { x: { ...model, cache_read: undefined } } }, 'models.x.cache_read'],
    ['a misspelt member', { models: { x: { ...model, outputs: 1 } } }, 'models.x'],
    ['no window', { models: { x: { ...model, context_window: 0 } } }, 'models.x.context_window'],
    ['a surcharge', { batch_factor: 1.5 }, 'batch_factor'],
    [
      'long prompts cheaper than short prompts, which no reservation could cover',
      { models: { x: { ...model, long_prompt: { ...rates, input: 0.5, above_tokens: 1 } } } },
      'models.x.long_prompt',
    ],
  ])('with %s is refused, and the place is named', (_what, change, place) => {
    expect(() => parse(change)).toThrow(
      expect.objectContaining({ code: 'bad_configuration', message: expect.stringContaining(place) }),
    );
  });

  test('that is not JSON or missing is refused', () => {
    expect(() => loadPriceTable('a.json', () => '{')).toThrow('PRICES_FILE: a.json is not JSON.');
    const absent = () => {
      throw new Error('ENOENT');
    };
    expect(() => loadPriceTable('a.json', absent)).toThrow('PRICES_FILE: a.json cannot be read.');
  });

  test('is the shipped table by default', () => {
    expect(loadPriceTable(undefined, () => '')).toBe(SHIPPED_PRICES);
  });
});

test('prompt tokens are all tokens read, from cache or not', () => {
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
