import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  continuationProbability,
  definitionKey,
  NO_USAGE,
  outputPercentile,
  sumWorkSamples,
  toWorkStatistics,
  workClassKey,
  type Definition,
  type WorkSample,
  type WorkStatistics,
} from '../../src/index.ts';
import { outputBucket, outputBucketMax } from '../../src/money/work-statistics.ts';

const TOOLS = { has_tools: true };
const NO_TOOLS = { has_tools: false };

function answer(step_number: number, output_tokens: number, rest: Partial<WorkSample> = {}): WorkSample {
  const usage = { ...NO_USAGE, input_tokens: 100 * step_number, output_tokens };
  return { keys: ['k'], step_number, usage, ended: false, ...rest };
}

const statisticsOf = (samples: readonly WorkSample[]): WorkStatistics =>
  toWorkStatistics(sumWorkSamples(samples));

const repeat = <Item>(count: number, item: Item): Item[] => Array.from({ length: count }, () => item);

describe('statistics of work', () => {
  test('sum answers, ends and tokens by step number', () => {
    const stats = statisticsOf([
      answer(1, 40),
      answer(1, 80, { ended: true }),
      answer(3, 20),
      answer(17, 10),
      answer(40, 10),
      // The end of the run whose answer was counted before.
      { ...answer(3, 0), usage: null, ended: true },
    ]);
    expect(stats).toMatchObject({
      answers: 5,
      runs: 2,
      output_tokens: 160,
      prompt_tokens: 6_200,
    });
    expect(stats.steps).toHaveLength(17);
    expect(stats.steps[0]).toMatchObject({ answers: 2, ended: 1, prompt_tokens: 200 });
    expect(stats.steps[1]).toMatchObject({ answers: 0 });
    expect(stats.steps[2]).toMatchObject({ answers: 1, ended: 1 });
    expect(stats.steps[16]).toMatchObject({ answers: 2 });
  });

  test('are summed for each key of a sample, in the order of the rows', () => {
    const rows = sumWorkSamples([answer(1, 1, { keys: ['b', 'a'] }), answer(1, 1, { keys: ['a'] })]);
    expect(rows.map(({ key, measure, bucket, answers }) => [key, measure, bucket, answers])).toEqual([
      ['a', 'output', 0, 2],
      ['a', 'step', 0, 2],
      ['a', 'total', 0, 2],
      ['b', 'output', 0, 1],
      ['b', 'step', 0, 1],
      ['b', 'total', 0, 1],
    ]);
  });

  test('have a key for a definition and one for its kind of work', () => {
    expect(definitionKey('x')).toBe('definition:x');
    const tool = (name: string) => ({ name }) as Definition['tools'][number];
    const work = { model: 'anthropic/a', tools: [tool('a'), tool('b')], result_format: null };
    const key = workClassKey(work);
    expect(key).toMatch(/^class:[0-9a-f]{16}$/);
    expect(workClassKey({ ...work, tools: [tool('b'), tool('a')] })).toBe(key);
    const others = [
      { ...work, model: 'anthropic/b' },
      { ...work, tools: [tool('a')] },
      { ...work, result_format: { schema: {} } },
      { ...work, writable_labels: [] },
    ].map(workClassKey);
    expect(new Set([key, ...others]).size).toBe(5);
  });
});

describe('the probability of another step', () => {
  test('is a prior by the kind of work without answers', () => {
    expect(continuationProbability(null, 1, TOOLS)).toBe(0.5);
    expect(continuationProbability(null, 1, NO_TOOLS)).toBe(0.05);
  });

  test('follows the answers of the step number', () => {
    const stats = statisticsOf([
      ...repeat(100, answer(1, 10)),
      ...repeat(100, answer(2, 10, { ended: true })),
    ]);
    expect(continuationProbability(stats, 1, TOOLS)).toBeGreaterThan(0.97);
    expect(continuationProbability(stats, 2, TOOLS)).toBeLessThan(0.03);
    // A step that no run has reached.
    expect(continuationProbability(stats, 3, TOOLS)).toBeCloseTo(0.5, 2);
  });

  test('is a probability for any counts', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.boolean(), fc.boolean())),
        fc.integer({ min: 1, max: 40 }),
        (answers, step) => {
          const samples = answers.map(([number, ended, again]): WorkSample => {
            const sample = answer(number, 1, { ended });
            return again ? { ...sample, usage: null } : sample;
          });
          const share = continuationProbability(statisticsOf(samples), step, TOOLS);
          expect(share).toBeGreaterThanOrEqual(0);
          expect(share).toBeLessThanOrEqual(1);
        },
      ),
    );
  });
});

describe('the percentile of output tokens', () => {
  test('is null without answers', () => {
    expect(outputPercentile(null, 0.99)).toBeNull();
    expect(outputPercentile(toWorkStatistics([]), 0.99)).toBeNull();
  });

  test('is not below that share of the answers, and at most a quarter octave above it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 200_000 }), { minLength: 1 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (outputs, share) => {
          const found =
            outputPercentile(statisticsOf(outputs.map((tokens) => answer(1, tokens))), share) ?? 0;
          const sorted = outputs.toSorted((one, other) => one - other);
          const exact = sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
          expect(found).toBeGreaterThanOrEqual(exact);
          expect(found).toBeLessThanOrEqual(Math.max(1, exact) * 2 ** 0.25 + 1);
        },
      ),
    );
  });

  test('has buckets that hold their own maximum', () => {
    for (let bucket = 16; bucket <= 72; bucket++) {
      expect(outputBucket(outputBucketMax(bucket))).toBe(bucket);
      expect(outputBucket(outputBucketMax(bucket) + 1)).toBe(bucket + 1);
    }
  });
});
