import { batchCostNanoUsd, type PriceTable } from '../model/prices.ts';
import { NO_USAGE } from '../model/usage.ts';
import type { Cap } from './budget.ts';
import { reserveNanoUsd } from './reserve.ts';

/** Runs of a batch with similar requests. */
export interface RunGroup {
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly runs: number;
  /**
   * Exact total of the first requests.
   * Unit: bytes.
   */
  readonly request_bytes: number;
  /** Estimated prompt tokens of the first requests, all runs together. */
  readonly input_tokens: number;
  /** Maximum prompt tokens of the first requests: all runs together, and the smallest of them. */
  readonly worst_input_tokens: number;
  readonly least_worst_input_tokens: number;
  readonly max_tokens: number;
  /** Maximum number of steps of a run. */
  readonly steps_max: number;
  /** Maximum number of further summaries of a run, and output tokens of a summary request. */
  readonly summaries_max: number;
  readonly summary_tokens: number;
  /** The context windows of agent and model; reservations use the model's. */
  readonly window_tokens: number;
  readonly window_max: number;
  readonly has_tools: boolean;
  /** The cap of each run, which ends when it is reached. */
  readonly cap: Cap;
  /** Averages of earlier runs of these agents; null without history. */
  readonly history: { readonly steps: number; readonly output_tokens_per_step: number } | null;
}

/** Range of an estimate. */
export interface Range {
  readonly low: number;
  readonly expected: number;
  readonly worst: number;
}

export interface BatchEstimate {
  /** Number of steps sent. */
  readonly requests: Range;
  /** Exact, for the first requests. */
  readonly request_bytes: number;
  readonly input_tokens: Range;
  readonly output_tokens: Range;
  /**
   * Null when a model has no price, as unknown is not zero.
   * Unit: billionths of a US dollar.
   */
  readonly cost_nanousd: Range | null;
  readonly unpriced_models: readonly string[];
  /**
   * The graver verdict of both caps; null without a cap of the batch.
   * `fits`: even the worst case fits. `may_pause`: only the worst case exceeds a cap. `will_pause`: the expected case
   * does. `cannot_start`: not even one request fits, by the caps of batch or runs. `unknown`: no price.
   */
  readonly verdict: 'fits' | 'may_pause' | 'will_pause' | 'cannot_start' | 'unknown' | null;
}

/** Tokens of a short answer. */
const OUTPUT_TOKENS_LOW = 50;
/** Expected tokens of an answer, and steps of a run with tools, without history. */
const OUTPUT_TOKENS_EXPECTED = 600;
const STEPS_EXPECTED = 2;
/** Tokens that results and their frame add between two steps. */
const RESULT_TOKENS_EXPECTED = 300;
/** A cut-off answer or summary is paid and repeated once with twice the tokens. */
const CUT_OFF_FACTOR = 3;

interface Course {
  readonly steps: number;
  readonly first_input: number;
  readonly output_per_step: number;
  readonly growth_per_step: number;
  readonly window: number;
}

/** Sums tokens and cost of a run. Each prompt holds the steps before it, up to the window. */
function runTotals(
  { steps, first_input, output_per_step, growth_per_step, window }: Course,
  costOf: (input: number, output: number) => number | null,
): { readonly input: number; readonly output: number; readonly cost: number | null } {
  const whole = Math.ceil(steps);
  let input = 0;
  let cost: number | null = 0;
  for (let step = 0; step < whole; step++) {
    const share = Math.min(1, steps - step);
    const prompt = Math.min(window, first_input + step * growth_per_step);
    input += share * prompt;
    const price = costOf(prompt, output_per_step);
    cost = cost === null || price === null ? null : cost + share * price;
  }
  return { input, output: steps * output_per_step, cost };
}

/**
 * Estimates a batch without spending anything.
 * `low`: one short answer a run. `expected`: by history, or a few steps of middling answers. `worst`: every step and a
 * summary before it filled to the last token and cut off once, with full windows from the second step on. Each prompt
 * token is billed by the dearest column. Reservations of these requests never exceed `worst`. Repeats of useless
 * answers come on top: they are so rare that four of each would make the worst case meaningless.
 */
export function estimateBatch(prices: PriceTable, groups: readonly RunGroup[], cap: Cap): BatchEstimate {
  const total = { low: blank(), expected: blank(), worst: blank() };
  const unpriced = new Set<string>();
  const cheapest = { cost_nanousd: Infinity, output_tokens: Infinity };
  let isEmpty = true;
  for (const group of groups) {
    const { model_name, runs, max_tokens, steps_max, window_tokens } = group;
    if (runs === 0) continue;
    const first = group.input_tokens / runs;
    const firstCost = reserveNanoUsd(prices, model_name, group.least_worst_input_tokens, max_tokens) ?? 0;
    isEmpty = false;
    if (
      firstCost <= (group.cap.cost_nanousd ?? Infinity) &&
      max_tokens <= (group.cap.output_tokens ?? Infinity)
    ) {
      cheapest.cost_nanousd = Math.min(cheapest.cost_nanousd, firstCost);
      cheapest.output_tokens = Math.min(cheapest.output_tokens, max_tokens);
    }
    const costMax = runs * (group.cap.cost_nanousd ?? Infinity);
    const outputMax = runs * (group.cap.output_tokens ?? Infinity);
    const output = Math.min(max_tokens, group.history?.output_tokens_per_step ?? OUTPUT_TOKENS_EXPECTED);
    const steps = Math.min(steps_max, group.history?.steps ?? (group.has_tools ? STEPS_EXPECTED : 1));
    const outputLow = Math.min(max_tokens, OUTPUT_TOKENS_LOW);
    const courses = {
      low: {
        steps: 1,
        first_input: first,
        output_per_step: outputLow,
        growth_per_step: 0,
        window: window_tokens,
      },
      expected: {
        steps: Math.max(1, steps),
        first_input: first,
        output_per_step: Math.max(output, outputLow),
        growth_per_step: output + RESULT_TOKENS_EXPECTED,
        window: window_tokens,
      },
    };
    for (const [kind, course] of Object.entries(courses) as ['low' | 'expected', Course][]) {
      const {
        input,
        output: written,
        cost,
      } = runTotals(course, (input_tokens, output_tokens) =>
        batchCostNanoUsd(prices, model_name, { ...NO_USAGE, input_tokens, output_tokens }),
      );
      if (cost === null) unpriced.add(model_name);
      addTo(total[kind], {
        requests: runs * course.steps,
        input: runs * input,
        output: Math.min(runs * written, outputMax),
        cost: Math.min(runs * (cost ?? 0), costMax),
      });
    }
    const { summaries_max, summary_tokens, worst_input_tokens, window_max } = group;
    const worstInput = 2 * (worst_input_tokens + runs * (steps_max - 1 + summaries_max) * window_max);
    const worstOutput = runs * CUT_OFF_FACTOR * (steps_max * max_tokens + summaries_max * summary_tokens);
    const cost = reserveNanoUsd(prices, model_name, worstInput, worstOutput) ?? 0;
    addTo(total.worst, {
      requests: runs * (steps_max + summaries_max),
      input: worstInput,
      output: Math.min(worstOutput, outputMax),
      cost: Math.min(cost, costMax),
    });
  }
  const range = (field: keyof Sums): Range => ({
    low: Math.round(total.low[field]),
    expected: Math.round(total.expected[field]),
    worst: Math.round(total.worst[field]),
  });
  const cost = unpriced.size > 0 ? null : range('cost');
  const output = range('output');
  return {
    requests: range('requests'),
    request_bytes: groups.reduce((bytes, group) => bytes + group.request_bytes, 0),
    input_tokens: range('input'),
    output_tokens: output,
    cost_nanousd: cost,
    unpriced_models: [...unpriced],
    verdict:
      !isEmpty && cheapest.output_tokens === Infinity
        ? 'cannot_start'
        : graverVerdict(
            verdictOf(cost, cap.cost_nanousd, cheapest.cost_nanousd),
            verdictOf(output, cap.output_tokens, cheapest.output_tokens),
          ),
  };
}

interface Sums {
  requests: number;
  input: number;
  output: number;
  cost: number;
}

function blank(): Sums {
  return { requests: 0, input: 0, output: 0, cost: 0 };
}

function addTo(sums: Sums, more: Readonly<Sums>): void {
  sums.requests += more.requests;
  sums.input += more.input;
  sums.output += more.output;
  sums.cost += more.cost;
}

type Verdict = BatchEstimate['verdict'];

const BY_GRAVITY: readonly Verdict[] = [null, 'fits', 'may_pause', 'unknown', 'will_pause', 'cannot_start'];

function graverVerdict(one: Verdict, other: Verdict): Verdict {
  return BY_GRAVITY.indexOf(one) > BY_GRAVITY.indexOf(other) ? one : other;
}

/** Returns the verdict. `first` is the reservation of the cheapest first request. */
function verdictOf(range: Range | null, cap: number | null, first: number): Verdict {
  if (cap === null) return null;
  if (range === null) return 'unknown';
  if (range.worst <= cap) return 'fits';
  if (first > cap) return 'cannot_start';
  return range.expected > cap ? 'will_pause' : 'may_pause';
}
