import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { SHIPPED_PRICES } from '../../src/model/prices.ts';
import {
  cacheFactors,
  decideCacheMarks,
  expectedHitRate,
  expectedRequests,
  type CacheFacts,
} from '../../src/money/cache-marks.ts';

const FACTS: CacheFacts = {
  static_tokens: 10_000,
  memory_tokens: 18_000,
  prompt_tokens: 20_000,
  cached_tokens: 0,
  cacheable_tokens_min: 1_024,
  write_factor: 2,
  read_factor: 0.1,
  next_requests: 5,
  sharers: 1,
  hit_rate: 0.95,
  in_time: 0.95,
};
const NONE = { static: false, memory: false, end: false };
const ALL = { static: true, memory: true, end: true };

/** Expected cost of a run of `steps` requests with and without marks in all of them. Unit: plain tokens. */
function costs(facts: CacheFacts, steps: number): { readonly marked: number; readonly plain: number } {
  const hits = facts.hit_rate * facts.in_time;
  const later = hits * facts.read_factor + (1 - hits) * facts.write_factor;
  return {
    marked: facts.prompt_tokens * (facts.write_factor + (steps - 1) * later),
    plain: facts.prompt_tokens * steps,
  };
}

describe('cache marks', () => {
  test.each<[string, Partial<CacheFacts>, object]>([
    ['a single step that shares its prompt with no other', { next_requests: 0 }, NONE],
    ['a first step of a long loop', {}, ALL],
    ['a first step that one more may follow', { next_requests: 1 }, NONE],
    ['a last step reads what the cache holds', { next_requests: 0, cached_tokens: 19_000 }, ALL],
    ['a last step with a small part in the cache', { next_requests: 0, cached_tokens: 1_000 }, NONE],
    ['single steps that share a prompt', { next_requests: 0, sharers: 20 }, { ...NONE, static: true }],
    ['two single steps that share a prompt', { next_requests: 0, sharers: 2 }, NONE],
    ['a provider that seldom hits', { hit_rate: 0.3, sharers: 20, cached_tokens: 19_000 }, NONE],
    ['turnarounds of hours', { in_time: 0.2, cached_tokens: 19_000 }, NONE],
    ['a prompt too short for the cache', { cacheable_tokens_min: 20_001 }, NONE],
    ['a static prompt too short for the cache', { static_tokens: 900 }, { ...ALL, static: false }],
  ])('%s', (_case, facts, marks) => {
    expect(decideCacheMarks({ ...FACTS, ...facts })).toEqual(marks);
  });

  test('are set exactly where marks in all requests of a run are expected to cost less than none', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (steps, hit_rate, in_time) => {
          const facts = { ...FACTS, hit_rate, in_time, next_requests: steps - 1 };
          const { marked, plain } = costs(facts, steps);
          fc.pre(Math.abs(marked - plain) > 1e-6);
          expect(decideCacheMarks(facts).end).toBe(marked < plain);
        },
      ),
    );
  });
});

test('the expected further requests follow the probabilities, up to the step limit', () => {
  expect(expectedRequests(1, 1, () => 1)).toBe(0);
  expect(expectedRequests(1, 10, () => 1)).toBe(9);
  expect(expectedRequests(8, 10, () => 0.5)).toBe(0.75);
  expect(expectedRequests(1, 1_000_000, () => 0.5)).toBeCloseTo(1, 2);
});

test('the expected hit rate moves from its prior to the measured rate', () => {
  expect(expectedHitRate(null)).toBe(0.9);
  expect(expectedHitRate({ hit_rate: 0.3, measured: 10 })).toBeCloseTo(0.6);
  expect(expectedHitRate({ hit_rate: 0.3, measured: 10_000 })).toBeCloseTo(0.3, 2);
});

test('written and read tokens are priced by the table, or by the rule for all models', () => {
  expect(cacheFactors(SHIPPED_PRICES, 'claude-fable-5-2')).toEqual({ write_factor: 2, read_factor: 0.025 });
  expect(cacheFactors(SHIPPED_PRICES, 'unheard-of')).toEqual({ write_factor: 2, read_factor: 0.1 });
});
