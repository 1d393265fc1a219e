import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { searchesMax } from '../../src/model/server-tool.ts';
import { SHIPPED_PRICES } from '../../src/model/prices.ts';
import { estimateBatch as estimateWith, type RunGroup } from '../../src/money/estimate.ts';
import { NO_MEDIA, reserveNanoUsd, worstInputTokens } from '../../src/money/reserve.ts';
import { sumWorkSamples, toWorkStatistics, type WorkStatistics } from '../../src/money/work-statistics.ts';
import { NO_USAGE, type Usage } from '../../src/model/usage.ts';

const estimateBatch = (
  groups: readonly RunGroup[],
  cost_nanousd: number | null,
  output_tokens: number | null = null,
) => estimateWith(SHIPPED_PRICES, groups, { cost_nanousd, output_tokens });

const SEARCH = { type: 'web_search_20260318', name: 'web_search' };

const group = (rest: Partial<RunGroup> = {}): RunGroup => ({
  model_name: 'claude-haiku-4-5',
  runs: 100,
  request_bytes: 300_000,
  input_tokens: 100_000,
  max_tokens: 1_000,
  worst_input_tokens: 500_000,
  least_worst_input_tokens: 5_000,
  steps_max: 3,
  summaries_max: 0,
  summary_tokens: 2_048,
  window_tokens: 200_000,
  window_max: 200_000,
  thinking_tokens: 0,
  kind: 'tools',
  has_own_max_steps: false,
  server_tools: [],
  work: null,
  cap: { cost_nanousd: null, output_tokens: null },
  ...rest,
});

describe('the estimate of a batch', () => {
  test('gives requests, bytes, tokens and cost, from low to worst', () => {
    expect(estimateBatch([group()], null)).toEqual({
      requests: { low: 100, expected: 300, worst: 300 },
      request_bytes: 300_000,
      // Each prompt holds the answers before it and their results.
      input_tokens: {
        low: 100_000,
        expected: 100 * (1_000 + 1_180 + 1_360),
        worst: 100 * (5_000 + 8_000 + 11_000),
      },
      output_tokens: { low: 5_000, expected: 24_000, worst: 300_000 },
      cached_tokens: { read: 0, written: 0 },
      cost_nanousd: {
        low: (100_000 * 1_000 + 5_000 * 5_000) / 2,
        expected: (354_000 * 1_000 + 24_000 * 5_000) / 2,
        worst: (2_400_000 * 2_000 + 300_000 * 5_000) / 2,
      },
      realtime_nanousd: {
        uncached: 354_000 * 1_000 + 24_000 * 5_000,
        // Each step reads the prompt of the step before, and all but the last write the rest for five minutes.
        cached: 100 * (1_180 * 1_250 + 180 * 1_000 + (1_000 + 1_180) * 100) + 24_000 * 5_000,
      },
      unpriced_models: [],
      server_tools: [],
      rounds: null,
      least_cap: {
        cost_nanousd: (354_000 * 1_000 + 24_000 * 5_000) / 2 + (5_360 * 2_000 + 1_000 * 5_000) / 2,
        output_tokens: 25_000,
      },
      verdict: null,
    });
  });

  test('expects the steps of the kind of work, or most of an own step limit', () => {
    const expected = (rest: Partial<RunGroup>): number =>
      estimateBatch([group({ steps_max: 20, ...rest })], null).requests.expected;
    expect(
      (['words', 'typed', 'memory', 'rewrite', 'tools'] as const).map((kind) => expected({ kind })),
    ).toEqual([100, 100, 100, 200, 300]);
    expect(expected({ has_own_max_steps: true })).toBe(1_600);
    expect(expected({ has_own_max_steps: true, kind: 'words' })).toBe(100);
  });

  test('a single step costs the same in realtime with a cache as without', () => {
    const { realtime_nanousd } = estimateBatch([group({ kind: 'words' })], null);
    expect(realtime_nanousd?.cached).toBe(realtime_nanousd?.uncached);
  });

  test('counts summaries in the worst case if the prompts may fill the window', () => {
    const wide = estimateBatch([group({ summaries_max: 2 })], null);
    const without = estimateBatch([group()], null);
    expect(wide.requests.worst).toBe(without.requests.worst + 200);
    expect(wide.input_tokens.worst).toBe(without.input_tokens.worst);
    const narrow = estimateBatch([group({ summaries_max: 2, window_tokens: 10_000 })], null);
    expect(narrow.input_tokens.worst).toBe(without.input_tokens.worst + 200 * 200_000);
    expect(narrow.output_tokens.worst).toBe(without.output_tokens.worst + 200 * 2_048);
  });

  test('no prompt grows beyond the window', () => {
    const tight = group({ window_tokens: 1_200 });
    expect(estimateBatch([tight], null).input_tokens.expected).toBe(100 * (1_000 + 1_180 + 1_200));
  });

  describe('with earlier answers', () => {
    /** Statistics of `runs` runs whose steps had these usages. */
    const work = (runs: number, steps: readonly Partial<Usage>[]): WorkStatistics =>
      toWorkStatistics(
        sumWorkSamples(
          Array.from({ length: runs }, () =>
            steps.map((usage, index) => ({
              keys: ['k'],
              step_number: index + 1,
              usage: { ...NO_USAGE, ...usage },
              ended: index === steps.length - 1,
            })),
          ).flat(),
        ),
      );
    const loop = work(20, [
      { input_tokens: 400, cache_write_1h_tokens: 400, output_tokens: 64 },
      { input_tokens: 300, cache_read_tokens: 700, output_tokens: 32 },
    ]);

    test('expects their steps, answers, growth and cached shares', () => {
      const { requests, input_tokens, output_tokens, cached_tokens, cost_nanousd } = estimateBatch(
        [group({ work: loop })],
        null,
      );
      expect(requests.expected).toBe(200);
      expect(input_tokens.expected).toBe(100 * (1_000 + 1_200));
      expect(output_tokens.expected).toBe(9_600);
      expect(cached_tokens).toEqual({ read: 84_000, written: 50_000 });
      expect(cost_nanousd?.expected).toBe(
        (50_000 * 1_000 + 50_000 * 2_000 + 84_000 * 100 + 36_000 * 1_000 + 9_600 * 5_000) / 2,
      );
    });

    test('a realtime loop writes to its cache in the runs that go on', () => {
      const alone = work(30, [{ input_tokens: 1_000, output_tokens: 10 }]);
      const { realtime_nanousd } = estimateBatch([group({ work: alone })], null);
      expect(realtime_nanousd?.cached).toBe(realtime_nanousd?.uncached);
      const each = { keys: ['k'], cut_off: false, readable_tokens: 0 };
      const usage = { ...NO_USAGE, input_tokens: 1_000 };
      const mixed = toWorkStatistics(
        sumWorkSamples([
          ...[true, true, true, false].map((ended) => ({ ...each, step_number: 1, usage, ended })),
          { ...each, step_number: 2, usage, ended: true },
        ]),
      );
      // A quarter of the runs writes its first prompt and reads it in the second step.
      expect(estimateBatch([group({ work: mixed })], null).realtime_nanousd?.cached).toBe(
        100 * 1_000 * (0.75 * 1_000 + 0.25 * 1_250 + 0.25 * 100),
      );
    });

    test('the worst case has answers as long as the longest in a hundred', () => {
      const { output_tokens } = estimateBatch([group({ work: loop })], null);
      expect(output_tokens.worst).toBe(300 * 256);
    });

    test('knows no number of steps without an end of a run', () => {
      const open = toWorkStatistics(
        sumWorkSamples([{ keys: ['k'], step_number: 1, usage: NO_USAGE, ended: false }]),
      );
      expect(estimateBatch([group({ work: open })], null).requests.expected).toBe(300);
    });

    test('ended runs without counted answers are no statistics', () => {
      const uncounted = toWorkStatistics(
        sumWorkSamples([{ keys: ['k'], step_number: 1, usage: null, ended: true }]),
      );
      expect(estimateBatch([group({ work: uncounted })], 1e15)).toEqual(estimateBatch([group()], 1e15));
    });

    test('more steps than the limit are not expected', () => {
      const long = work(
        20,
        Array.from({ length: 30 }, () => ({ input_tokens: 100, output_tokens: 10 })),
      );
      expect(estimateBatch([group({ work: long })], null).requests.expected).toBe(300);
      expect(estimateBatch([group({ work: long, steps_max: 50 })], null).requests.expected).toBeGreaterThan(
        1_600,
      );
    });
  });

  describe('the rounds', () => {
    const rounds = (cost: number | null, output: number | null = null, rest: Partial<RunGroup> = {}) =>
      estimateBatch([group(rest)], cost, output).rounds;
    const first = (5_000 * 2_000 + 1_000 * 5_000) / 2;

    test('are the steps of a run where all have room', () => {
      expect(rounds(1e15)).toBe(3);
      expect(rounds(1e15, null, { kind: 'words' })).toBe(1);
    });

    test('grow as the cap shrinks, until the work has no room', () => {
      const { least_cap } = estimateBatch([group()], null);
      expect(rounds(100 * first)).toBe(3);
      expect(rounds(50 * first)).toBeGreaterThan(3);
      expect(rounds(least_cap.cost_nanousd)).toBeLessThan(1_000);
      expect(rounds(estimateBatch([group()], null).cost_nanousd?.expected ?? 0)).toBeNull();
      expect(rounds(null, 20_000)).toBeNull();
      expect(rounds(null)).toBeNull();
    });

    test('of several groups run side by side', () => {
      const both = estimateBatch([group(), group({ kind: 'words' })], 1e15);
      expect(both.rounds).toBe(3);
    });
  });

  test('names models without a price, and leaves the cost unknown', () => {
    expect(estimateBatch([group(), group({ model_name: 'gpt' })], 1)).toMatchObject({
      cost_nanousd: null,
      unpriced_models: ['gpt'],
      verdict: 'unknown',
      requests: { low: 200 },
    });
  });

  test('of nothing is nothing, and fits', () => {
    expect(estimateBatch([], 0)).toMatchObject({
      requests: { low: 0, expected: 0, worst: 0 },
      cost_nanousd: { low: 0, expected: 0, worst: 0 },
      verdict: 'fits',
    });
    expect(estimateBatch([group({ runs: 0, request_bytes: 0, input_tokens: 0 })], 0).verdict).toBe('fits');
  });

  test('gives the verdict on the cap', () => {
    const { cost_nanousd } = estimateBatch([group()], null);
    const { expected = 0, worst = 0 } = cost_nanousd ?? {};
    const verdict = (cap: number) => estimateBatch([group()], cap).verdict;
    expect(verdict(worst)).toBe('fits');
    expect(verdict(worst - 1)).toBe('may_pause');
    expect(verdict(expected)).toBe('may_pause');
    expect(verdict(expected - 1)).toBe('will_pause');
    // The reservation of the first request.
    const first = (5_000 * 2_000 + 1_000 * 5_000) / 2;
    expect(verdict(first)).toBe('will_pause');
    expect(verdict(first - 1)).toBe('cannot_start');
  });

  test('judges tokens like money, and gives the graver verdict', () => {
    const { expected, worst } = estimateBatch([group()], null).output_tokens;
    const verdict = (tokens: number, cost: number | null = null) =>
      estimateBatch([group()], cost, tokens).verdict;
    expect(verdict(worst)).toBe('fits');
    expect(verdict(worst - 1)).toBe('may_pause');
    expect(verdict(expected - 1)).toBe('will_pause');
    expect(verdict(1_000)).toBe('will_pause');
    expect(verdict(999)).toBe('cannot_start');
    expect(verdict(worst, 1)).toBe('cannot_start');
    expect(verdict(999, 1e15)).toBe('cannot_start');
    expect(estimateBatch([group({ model_name: 'gpt' })], 1, worst).verdict).toBe('unknown');
  });

  test('no run costs or writes more than its own cap allows', () => {
    const capped = group({ cap: { cost_nanousd: 1_000_000, output_tokens: 70 } });
    const { cost_nanousd, output_tokens } = estimateBatch([capped], null);
    expect(cost_nanousd).toEqual({ low: 62_500_000, expected: 100_000_000, worst: 100_000_000 });
    expect(output_tokens).toEqual({ low: 5_000, expected: 7_000, worst: 7_000 });
  });

  test('cannot start where no run has room for its first request in its own cap', () => {
    const first = (5_000 * 2_000 + 1_000 * 5_000) / 2;
    const verdict = (caps: readonly RunGroup['cap'][], cap: number | null = null) =>
      estimateBatch(
        caps.map((own) => group({ cap: own })),
        cap,
      ).verdict;
    const [tooLow, enough] = [first - 1, first].map((cost_nanousd) => ({
      cost_nanousd,
      output_tokens: null,
    }));
    expect(verdict([tooLow!])).toBe('cannot_start');
    expect(verdict([tooLow!], 1e15)).toBe('cannot_start');
    expect(verdict([{ cost_nanousd: null, output_tokens: 999 }])).toBe('cannot_start');
    expect(verdict([{ cost_nanousd: null, output_tokens: 1_000 }])).toBeNull();
    expect(verdict([tooLow!, enough!])).toBeNull();
    expect(verdict([tooLow!, enough!], 1e15)).toBe('fits');
  });

  test('low is at most expected, expected at most worst, and worst covers every reservation', () => {
    const anyGroup = fc.record({
      model_name: fc.constantFrom(...SHIPPED_PRICES.models.keys()),
      runs: fc.integer({ min: 1, max: 1_000 }),
      bytes: fc.integer({ min: 100, max: 100_000 }),
      max_tokens: fc.integer({ min: 1, max: 10_000 }),
      steps_max: fc.integer({ min: 1, max: 20 }),
      summaries_max: fc.nat(20),
      kind: fc.constantFrom('words', 'typed', 'memory', 'rewrite', 'tools'),
      has_own_max_steps: fc.boolean(),
      server_tools: fc.constantFrom([], [SEARCH], [{ ...SEARCH, max_uses: 2 }]),
    });
    fc.assert(
      fc.property(fc.array(anyGroup, { maxLength: 4 }), (given) => {
        const groups = given.map(({ bytes, ...rest }) => {
          const worst = worstInputTokens(SHIPPED_PRICES, rest.model_name, {
            bytes,
            media: NO_MEDIA,
            window_tokens: 1,
          });
          return group({
            ...rest,
            request_bytes: bytes * rest.runs,
            input_tokens: Math.ceil(bytes / 3) * rest.runs,
            worst_input_tokens: worst * rest.runs,
            least_worst_input_tokens: worst,
          });
        });
        const estimate = estimateBatch(groups, null);
        for (const range of [
          estimate.requests,
          estimate.input_tokens,
          estimate.output_tokens,
          estimate.cost_nanousd ?? expect.fail('no cost'),
        ]) {
          expect(range.low).toBeLessThanOrEqual(range.expected);
          expect(range.expected).toBeLessThanOrEqual(range.worst);
        }
        const firsts = groups.reduce(
          (sum, { model_name, runs, least_worst_input_tokens: input, max_tokens, server_tools }) =>
            sum +
            runs *
              (reserveNanoUsd(SHIPPED_PRICES, model_name, input, max_tokens, searchesMax(server_tools)) ?? 0),
          0,
        );
        expect(firsts).toBeLessThanOrEqual(estimate.cost_nanousd?.worst ?? 0);
      }),
    );
  });
});
