import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  decideAfterPilot,
  type AfterPilot,
  type PilotFacts,
  type PilotRun,
  type PilotSettings,
} from '../../src/decide/after-pilot.ts';
import { pilotPlaces } from '../../src/decide/pilot-places.ts';
import { projectTotal } from '../../src/money/projection.ts';

const USD = 1e9;
const run = (rest: Partial<PilotRun> = {}): PilotRun => ({
  ...{ state: 'completed', stop_reason: 'end_turn', error: null },
  ...{ steps: 2, output_tokens: 100, cost_nanousd: USD / 100 },
  ...rest,
});
const failed = (error = 'wrong'): PilotRun => run({ state: 'failed', stop_reason: 'provider_error', error });
const settings = (rest: Partial<PilotSettings> = {}): PilotSettings => ({
  ...{ runs: 5, then: 'continue', failure_rate: 0.2 },
  ...rest,
});
const NO_CAP = { cost_nanousd: null, output_tokens: null };
const facts = (rest: Partial<PilotFacts> = {}): PilotFacts => ({
  ...{
    settings: settings(),
    total: 100,
    open_runs: 95,
    cap: NO_CAP,
    runs: Array.from({ length: 5 }, () => run()),
  },
  ...rest,
});

describe('a batch after its pilot', () => {
  test.each<[string, Partial<PilotFacts>, AfterPilot['move'], AfterPilot['state'], RegExp | null]>([
    ['goes on with continue', {}, 'go_on', 'passed', null],
    [
      'waits with pause, and says the projection',
      { settings: settings({ then: 'pause' }) },
      ...(['pause', 'waiting'] as const),
      /^The pilot of 5 runs has ended\. All 100 runs are projected to cost \$1\.00 \(80 % interval: \$1\.00 to \$1\.00\)\. Resume/,
    ],
    [
      'says its tokens without a price',
      { settings: settings({ then: 'pause' }), runs: [run({ cost_nanousd: null }), run()] },
      ...(['pause', 'waiting'] as const),
      /All 100 runs are projected to write 10000 tokens\./,
    ],
    [
      'says no interval after a single run',
      { settings: settings({ then: 'pause' }), runs: [run({ cost_nanousd: 123_456 })] },
      ...(['pause', 'waiting'] as const),
      /^The pilot of 1 run has ended\. All 100 runs are projected to cost \$0\.0123\. Resume/,
    ],
    [
      'says large amounts with cents',
      { settings: settings({ then: 'pause' }), runs: [run({ cost_nanousd: 1.065 * USD })] },
      ...(['pause', 'waiting'] as const),
      /cost \$106\.50\./,
    ],
    [
      'says that it costs nothing',
      { settings: settings({ then: 'pause' }), runs: [run({ cost_nanousd: 0 })] },
      ...(['pause', 'waiting'] as const),
      /cost \$0\.00\./,
    ],
    [
      'goes on with as many failures as allowed',
      { runs: [failed(), ...facts().runs.slice(1)] },
      'go_on',
      'passed',
      null,
    ],
    [
      'stops with more failures',
      { runs: [failed(), run({ state: 'expired', stop_reason: 'expired' }), ...facts().runs.slice(2)] },
      ...(['pause', 'stopped'] as const),
      /2 of its runs failed, more than the failure_rate of 0.2 allows\. All 100 runs .* Resume the batch/,
    ],
    [
      'goes on under its caps',
      { cap: { cost_nanousd: USD, output_tokens: 10_000 } },
      'go_on',
      'passed',
      null,
    ],
    [
      'stops above its cap in dollars',
      { cap: { cost_nanousd: USD - 1, output_tokens: null } },
      ...(['pause', 'stopped'] as const),
      /projected to cost \$1\.00, more than the max_cost_usd of 0\.999999999\. Raise the cap and resume/,
    ],
    [
      'stops above its cap in tokens',
      { cap: { cost_nanousd: null, output_tokens: 9_999 } },
      ...(['pause', 'stopped'] as const),
      /projected to write 10000 tokens, more than the max_output_tokens of 9999\. Raise the cap and resume/,
    ],
    [
      'goes on under a cap in dollars without a price',
      { cap: { cost_nanousd: 1, output_tokens: null }, runs: [run({ cost_nanousd: null })] },
      ...(['go_on', 'passed'] as const),
      null,
    ],
    [
      'waits with pause for a raised cap too',
      { settings: settings({ then: 'pause' }), cap: { cost_nanousd: 1, output_tokens: null } },
      ...(['pause', 'waiting'] as const),
      /Raise the cap and resume/,
    ],
    [
      'goes on to its end when no run is open, whatever failed',
      { settings: settings({ then: 'pause' }), open_runs: 0, total: 2, runs: [failed(), failed()] },
      ...(['go_on', 'passed'] as const),
      null,
    ],
    ['without any run goes on to its end', { open_runs: 0, total: 0, runs: [] }, 'go_on', 'passed', null],
  ])('%s', (_what, rest, move, state, reason) => {
    const decided = decideAfterPilot(facts(rest));
    expect(decided).toMatchObject({ move, state });
    if (reason === null) expect(decided.reason).toBeNull();
    else expect(decided.reason).toMatch(reason);
  });

  test('has the ends, steps and errors of its runs, the most frequent first', () => {
    const runs = [
      ...[failed('b'), failed('a'), failed('b'), failed('c'.repeat(400))],
      run({ steps: 7, stop_reason: 'max_steps', cost_nanousd: 5 }),
      run({ state: 'cancelled', stop_reason: null, steps: 0 }),
    ];
    expect(decideAfterPilot(facts({ runs })).result).toEqual({
      ...{ completed: 1, failed: 4, cancelled: 1, cost_nanousd: USD / 20 + 5, output_tokens: 600 },
      ...{ steps_mean: 2.5, steps_max: 7 },
      stop_reasons: { provider_error: 4, max_steps: 1 },
      errors: [
        { message: 'b', runs: 2 },
        { message: 'a', runs: 1 },
        { message: 'c'.repeat(300), runs: 1 },
      ],
      projection: {
        cost_nanousd: expect.any(Object) as unknown,
        output_tokens: { low: 10_000, expected: 10_000, high: 10_000 },
      },
    });
    const many = Array.from({ length: 30 }, (_, index) => failed(`error ${index}`));
    expect(decideAfterPilot(facts({ runs: many })).result.errors).toHaveLength(10);
  });

  const anyRun = fc.record<PilotRun>({
    state: fc.constantFrom('completed', 'failed', 'expired', 'cancelled'),
    stop_reason: fc.constantFrom('end_turn', 'provider_error', 'max_steps'),
    error: fc.option(fc.string()),
    steps: fc.integer({ min: 0, max: 50 }),
    output_tokens: fc.integer({ min: 0, max: 100_000 }),
    cost_nanousd: fc.option(fc.integer({ min: 0, max: 100 * USD })),
  });
  const anyFacts = fc
    .record({
      runs: fc.array(anyRun, { maxLength: 40 }),
      rest: fc.integer({ min: 0, max: 100_000 }),
      then: fc.constantFrom('continue' as const, 'pause' as const),
      failure_rate: fc.double({ min: 0, max: 1, noNaN: true }),
      cap: fc.record({
        cost_nanousd: fc.option(fc.integer({ min: 1, max: 1e15 })),
        output_tokens: fc.option(fc.integer({ min: 1, max: 1e9 })),
      }),
    })
    .map(({ runs, rest, then, failure_rate, cap }): PilotFacts => ({
      settings: { runs: 20, then, failure_rate },
      ...{ total: runs.length + rest, open_runs: rest, cap, runs },
    }));

  test('pauses with a reason or goes on without one, and never goes on where a pause is asked for', () => {
    fc.assert(
      fc.property(anyFacts, (drawn) => {
        const { move, state, reason, result } = decideAfterPilot(drawn);
        expect(move === 'pause').toBe(reason !== null);
        expect(move === 'pause').toBe(state !== 'passed');
        if (drawn.settings.then === 'pause') expect(move).toBe(drawn.open_runs > 0 ? 'pause' : 'go_on');
        expect(result.completed + result.failed + result.cancelled).toBe(drawn.runs.length);
        if (move === 'go_on' && drawn.open_runs > 0) {
          expect(result.failed).toBeLessThanOrEqual(drawn.settings.failure_rate * drawn.runs.length);
          const { cost_nanousd, output_tokens } = result.projection;
          expect(cost_nanousd?.expected ?? 0).toBeLessThanOrEqual(drawn.cap.cost_nanousd ?? Infinity);
          expect(output_tokens.expected).toBeLessThanOrEqual(drawn.cap.output_tokens ?? Infinity);
        }
      }),
    );
  });
});

describe('a projected total', () => {
  test('of the whole sample is the sum', () => {
    expect(projectTotal([1, 2], 2)).toEqual({ low: 3, expected: 3, high: 3 });
    expect(projectTotal([], 0)).toEqual({ low: 0, expected: 0, high: 0 });
  });

  test('without a sample is unknown', () => {
    expect(projectTotal([], 5)).toEqual({ low: null, expected: 0, high: null });
  });

  test.each([
    [2, 3.0777],
    [3, 1.8856],
    [4, 1.6377],
    [5, 1.5332],
    [11, 1.3722],
    [20, 1.3277],
    [1_000, 1.2824],
  ])('from %i values has the interval of Student’s t', (count, quantile) => {
    const sample = Array.from({ length: count }, (_, index) => 1e6 * (index % 2 === 0 ? 3 : 5));
    const mean = sample.reduce((all, value) => all + value, 0) / count;
    const variance = sample.reduce((all, value) => all + (value - mean) ** 2, 0) / (count - 1);
    const rest = 50_000;
    const { high, expected } = projectTotal(sample, count + rest);
    const margin = quantile * Math.sqrt(variance * rest * (1 + rest / count));
    expect(Math.abs(((high ?? 0) - expected) / margin - 1)).toBeLessThan(0.003);
  });

  test('lies in its interval, which begins at the cost so far', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 1e12 }), { minLength: 2, maxLength: 40 }),
        fc.integer({ min: 0, max: 100_000 }),
        (sample, rest) => {
          const { low, expected, high } = projectTotal(sample, sample.length + rest);
          expect(low).toBeGreaterThanOrEqual(sample.reduce((all, value) => all + value, 0));
          expect(low).toBeLessThanOrEqual(expected);
          expect(high).toBeGreaterThanOrEqual(expected);
        },
      ),
    );
  });

  test('holds four of five real totals', () => {
    // A fixed generator: costs of one to five steps, each with a log-normal length.
    let state = 1;
    const next = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
    const cost = (): number =>
      Math.round(1e6 * (1 + Math.floor(next() * 5)) * Math.exp(0.4 * (next() + next() + next() - 1.5)));
    let held = 0;
    for (let round = 0; round < 400; round++) {
      const all = Array.from({ length: 500 }, cost);
      const total = all.reduce((sum, value) => sum + value, 0);
      const { low, high } = projectTotal(all.slice(0, 20), 500);
      if (total >= (low ?? Infinity) && total <= (high ?? 0)) held += 1;
    }
    expect(held / 400).toBeGreaterThan(0.75);
    expect(held / 400).toBeLessThan(0.85);
  });
});

describe('the places of a pilot', () => {
  test('are distinct, ascending, and one in each stretch', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 1, max: 1_000 }), (count, runs) => {
        const places = pilotPlaces(count, runs);
        const picked = Math.min(count, runs);
        expect(places).toHaveLength(picked);
        for (const [index, place] of places.entries()) {
          expect(place).toBeGreaterThanOrEqual(Math.floor((index * count) / picked));
          expect(place).toBeLessThan(Math.floor(((index + 1) * count) / picked));
        }
        expect(pilotPlaces(count, runs)).toEqual(places);
      }),
    );
  });

  test.each([2, 5, 7, 10, 50, 250])('do not keep step with inputs that repeat every %i', (period) => {
    const phases = new Set(pilotPlaces(5_000, 20).map((place) => place % period));
    expect(phases.size).toBeGreaterThanOrEqual(Math.min(period, 5) - 1);
  });
});
