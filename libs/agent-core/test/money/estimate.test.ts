import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { SHIPPED_PRICES } from '../../src/model/prices.ts';
import { estimateBatch as estimateWith, type RunGroup } from '../../src/money/estimate.ts';
import { NO_MEDIA, reserveNanoUsd, worstInputTokens } from '../../src/money/reserve.ts';

const estimateBatch = (
  groups: readonly RunGroup[],
  cost_nanousd: number | null,
  output_tokens: number | null = null,
) => estimateWith(SHIPPED_PRICES, groups, { cost_nanousd, output_tokens });

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
  has_tools: true,
  history: null,
  cap: { cost_nanousd: null, output_tokens: null },
  ...rest,
});

describe('the estimate of a batch', () => {
  test('gives requests, bytes, tokens and cost, from low to worst', () => {
    expect(estimateBatch([group()], null)).toEqual({
      requests: { low: 100, expected: 200, worst: 300 },
      request_bytes: 300_000,
      input_tokens: { low: 100_000, expected: 290_000, worst: 2 * 100 * (5_000 + 2 * 200_000) },
      output_tokens: { low: 5_000, expected: 120_000, worst: 3 * 300 * 1_000 },
      cost_nanousd: {
        low: (100_000 * 1_000 + 5_000 * 5_000) / 2,
        expected: (290_000 * 1_000 + 120_000 * 5_000) / 2,
        worst: (81_000_000 * 2_000 + 900_000 * 5_000) / 2,
      },
      unpriced_models: [],
      verdict: null,
    });
  });

  test('expects a single step without tools', () => {
    expect(estimateBatch([group({ has_tools: false })], null).requests).toEqual({
      low: 100,
      expected: 100,
      worst: 300,
    });
  });

  test('counts the summaries that may be needed, in the worst case', () => {
    const { requests, input_tokens, output_tokens } = estimateBatch([group({ summaries_max: 2 })], null);
    const without = estimateBatch([group()], null);
    expect(requests.worst).toBe(without.requests.worst + 200);
    // Each may be cut off and repeated once, with twice the tokens.
    expect(input_tokens.worst).toBe(without.input_tokens.worst + 2 * 200 * 200_000);
    expect(output_tokens.worst).toBe(without.output_tokens.worst + 200 * (2_048 + 4_096));
  });

  test('compares the window of the model with the caps, not the agent’s', () => {
    const narrow = group({ window_tokens: 32_000 });
    expect(estimateBatch([narrow], null).cost_nanousd).toEqual(estimateBatch([group()], null).cost_nanousd);
  });

  test('expects the averages of earlier runs, within the limits', () => {
    const history = { steps: 2.5, output_tokens_per_step: 100 };
    expect(estimateBatch([group({ history })], null)).toMatchObject({
      requests: { expected: 250 },
      // The last half step has half of its prompt.
      input_tokens: { expected: 100 * (1_000 + 1_400 + 1_800 / 2) },
      output_tokens: { expected: 25_000 },
      cost_nanousd: { expected: (330_000 * 1_000 + 25_000 * 5_000) / 2 },
    });
    const wild = { steps: 99, output_tokens_per_step: 9e9 };
    expect(estimateBatch([group({ history: wild })], null)).toMatchObject({
      requests: { expected: 300 },
      output_tokens: { expected: 300_000 },
    });
  });

  test('no prompt grows beyond the window', () => {
    const tight = group({ window_tokens: 1_200, history: { steps: 3, output_tokens_per_step: 1_000 } });
    expect(estimateBatch([tight], null).input_tokens.expected).toBe(100 * (1_000 + 1_200 + 1_200));
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
      has_tools: fc.boolean(),
      history: fc.option(
        fc.record({
          steps: fc.double({ min: 0, max: 30, noNaN: true }),
          output_tokens_per_step: fc.nat(20_000),
        }),
      ),
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
          (sum, { model_name, runs, least_worst_input_tokens, max_tokens }) =>
            sum +
            runs * (reserveNanoUsd(SHIPPED_PRICES, model_name, least_worst_input_tokens, max_tokens) ?? 0),
          0,
        );
        expect(firsts).toBeLessThanOrEqual(estimate.cost_nanousd?.worst ?? 0);
      }),
    );
  });
});
