import { batchCostNanoUsd } from '../model/prices.ts';
import { NO_USAGE } from '../model/usage.ts';
import { reserveNanoUsd, worstInputTokens } from './reserve.ts';

/** Runs of a batch whose requests are about alike. */
export interface RunGroup {
  /** The provider's name of the model. */
  readonly model_name: string;
  readonly runs: number;
  /** Exact bytes of the first requests, all runs together. */
  readonly request_bytes: number;
  /** Estimate of the first requests' prompt tokens, all runs together. */
  readonly input_tokens: number;
  readonly max_tokens: number;
  readonly max_steps: number;
  readonly window_tokens: number;
  readonly has_tools: boolean;
  /** What earlier runs of these agents took on average; null without any. */
  readonly history: { readonly steps: number; readonly output_tokens_per_step: number } | null;
}

/** What a batch may come to. */
export interface Range {
  readonly low: number;
  readonly expected: number;
  readonly worst: number;
}

export interface BatchEstimate {
  /** Steps that are sent. */
  readonly requests: Range;
  /** Exact, of the first requests. */
  readonly request_bytes: number;
  readonly input_tokens: Range;
  readonly output_tokens: Range;
  /** Billionths of a US dollar; null when a model has no price, because unknown is not nothing. */
  readonly cost_nanousd: Range | null;
  readonly unpriced_models: readonly string[];
  /**
   * Against the cap: `fits` whatever happens; `may_pause` when only the worst exceeds it; `will_pause` when what is
   * expected does; `cannot_start` when not even one request fits; `unknown` without a price; null without a cap.
   */
  readonly verdict: 'fits' | 'may_pause' | 'will_pause' | 'cannot_start' | 'unknown' | null;
}

/** Tokens of a short answer. */
const OUTPUT_TOKENS_LOW = 50;
/** Without history: what an answer takes, and how many steps a run with tools. */
const OUTPUT_TOKENS_EXPECTED = 600;
const STEPS_EXPECTED = 2;
/** Tokens that results and their frame add between two steps. */
const RESULT_TOKENS_EXPECTED = 300;
const RESULT_TOKENS_LOW = 20;
/** An answer that is cut off inside a call is paid and asked for once more, with twice the tokens. */
const CUT_OFF_FACTOR = 3;

interface Course {
  readonly steps: number;
  readonly first_input: number;
  readonly output_per_step: number;
  readonly growth_per_step: number;
  readonly window: number;
}

/** Tokens of one run: the prompt of each step holds what came before, up to the window. */
function tokensOf({ steps, first_input, output_per_step, growth_per_step, window }: Course): {
  readonly input: number;
  readonly output: number;
} {
  const whole = Math.ceil(steps);
  let input = 0;
  for (let step = 0; step < whole; step++) {
    const share = Math.min(1, steps - step);
    input += share * Math.min(window, first_input + step * growth_per_step);
  }
  return { input, output: steps * output_per_step };
}

/**
 * Estimates a batch without spending anything. `low`: one short answer a run. `expected`: by history, or a few steps of
 * middling answers. `worst`: every step, filled to its last token and cut off once, in a window that is full from the
 * second step on, each prompt token billed by the dearest column; what is reserved never exceeds it.
 */
export function estimateBatch(groups: readonly RunGroup[], capNanoUsd: number | null): BatchEstimate {
  const total = { low: blank(), expected: blank(), worst: blank() };
  const unpriced = new Set<string>();
  let cheapestFirst = Infinity;
  for (const group of groups) {
    const { model_name, runs, max_tokens, max_steps, window_tokens } = group;
    if (runs === 0) continue;
    const first = group.input_tokens / runs;
    const firstWorst = worstInputTokens(Math.ceil(group.request_bytes / runs), undefined, window_tokens);
    cheapestFirst = Math.min(cheapestFirst, reserveNanoUsd(model_name, firstWorst, max_tokens) ?? 0);
    const output = Math.min(max_tokens, group.history?.output_tokens_per_step ?? OUTPUT_TOKENS_EXPECTED);
    const steps = Math.min(max_steps, group.history?.steps ?? (group.has_tools ? STEPS_EXPECTED : 1));
    const outputLow = Math.min(max_tokens, OUTPUT_TOKENS_LOW);
    const courses = {
      low: {
        steps: 1,
        first_input: first,
        output_per_step: outputLow,
        growth_per_step: outputLow + RESULT_TOKENS_LOW,
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
      const { input, output: written } = tokensOf(course);
      const usage = { ...NO_USAGE, input_tokens: runs * input, output_tokens: runs * written };
      const cost = batchCostNanoUsd(model_name, usage);
      if (cost === null) unpriced.add(model_name);
      addTo(total[kind], runs * course.steps, usage.input_tokens, usage.output_tokens, cost ?? 0);
    }
    // A step that calls no tool is the last one.
    const worstSteps = group.has_tools ? max_steps : 1;
    const worstInput = 2 * (firstWorst + (worstSteps - 1) * window_tokens);
    const worstOutput = CUT_OFF_FACTOR * worstSteps * max_tokens;
    const cost = reserveNanoUsd(model_name, runs * worstInput, runs * worstOutput) ?? 0;
    addTo(total.worst, runs * worstSteps, runs * worstInput, runs * worstOutput, cost);
  }
  const range = (field: keyof Sums): Range => ({
    low: Math.round(total.low[field]),
    expected: Math.round(total.expected[field]),
    worst: Math.round(total.worst[field]),
  });
  const cost = unpriced.size > 0 ? null : range('cost');
  return {
    requests: range('requests'),
    request_bytes: groups.reduce((bytes, group) => bytes + group.request_bytes, 0),
    input_tokens: range('input'),
    output_tokens: range('output'),
    cost_nanousd: cost,
    unpriced_models: [...unpriced],
    verdict: verdictOf(cost, capNanoUsd, cheapestFirst),
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

function addTo(sums: Sums, requests: number, input: number, output: number, cost: number): void {
  sums.requests += requests;
  sums.input += input;
  sums.output += output;
  sums.cost += cost;
}

function verdictOf(cost: Range | null, cap: number | null, cheapestFirst: number): BatchEstimate['verdict'] {
  if (cap === null) return null;
  if (cost === null) return 'unknown';
  if (cost.worst <= cap) return 'fits';
  if (cheapestFirst > cap) return 'cannot_start';
  return cost.expected > cap ? 'will_pause' : 'may_pause';
}
