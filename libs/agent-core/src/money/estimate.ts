import type { Definition } from '../model/definition.ts';
import { batchCostNanoUsd, type PriceTable } from '../model/prices.ts';
import { searchesMax, serverToolCost, type ServerTool, type ServerToolCost } from '../model/server-tool.ts';
import { NO_USAGE, type Usage } from '../model/usage.ts';
import { answerLimit } from './answer-limit.ts';
import type { Cap } from './budget.ts';
import { reserveNanoUsd } from './reserve.ts';
import { outputPercentile, placeOfStep, type WorkCounts, type WorkStatistics } from './work-statistics.ts';

/** The kind of work of a definition, for priors. */
export type WorkKind =
  /** Answers in words. */
  | 'words'
  /** Gives a typed result. */
  | 'typed'
  /** Has memory tools alone, and may use them. */
  | 'memory'
  /** Rewrites memory: calls, and an end. */
  | 'rewrite'
  /** Has other tools. */
  | 'tools';

/** Agent type of rewrites of memory. */
const REWRITE_AGENT_TYPE = 'sleeptime_agent';

/** Returns the kind of work of a definition. */
export function workKindOf({ tools, server_tools, result_format, agent_type }: Definition): WorkKind {
  if ((server_tools ?? []).length > 0 || tools.some(({ kind }) => kind !== 'memory')) return 'tools';
  if (result_format != null) return 'typed';
  if (tools.length === 0) return 'words';
  return agent_type === REWRITE_AGENT_TYPE ? 'rewrite' : 'memory';
}

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
  /** Prompt tokens that a cap reserves for the first requests: all runs together, and the smallest of them. */
  readonly worst_input_tokens: number;
  readonly least_worst_input_tokens: number;
  readonly max_tokens: number;
  /** Maximum thinking within `max_tokens`. */
  readonly thinking_tokens: number;
  /** Maximum number of steps of a run. */
  readonly steps_max: number;
  /** Maximum number of further summaries of a run, and output tokens of a summary request. */
  readonly summaries_max: number;
  readonly summary_tokens: number;
  /** The context windows of agent and model; reservations use the model's. */
  readonly window_tokens: number;
  readonly window_max: number;
  readonly kind: WorkKind;
  readonly server_tools: readonly ServerTool[];
  /** Whether the runs have a step limit of their own. */
  readonly has_own_max_steps: boolean;
  /** The cap of each run, which ends when it is reached. */
  readonly cap: Cap;
  /** Statistics of the definition, or of its work class; null without answers. */
  readonly work: WorkStatistics | null;
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
  /** Expected prompt tokens read from the provider's cache, and written to it. */
  readonly cached_tokens: { readonly read: number; readonly written: number };
  /**
   * Null when a model has no price, as unknown is not zero.
   * Unit: billionths of a US dollar.
   */
  readonly cost_nanousd: Range | null;
  /** The expected work at the realtime price: without a cache, and with each step reading the prompt of the step before. */
  readonly realtime_nanousd: { readonly uncached: number; readonly cached: number } | null;
  readonly unpriced_models: readonly string[];
  /** The server tools of the runs. `worst` and the reservations hold the most cost of their uses. */
  readonly server_tools: readonly ServerToolCost[];
  /**
   * Provider batches in sequence that the caps allow for the expected work: at least the steps of a run. Null: without a cap
   * of the batch, without a price, or if the caps stop the work before its end.
   */
  readonly rounds: number | null;
  /** The smallest cap with room for the dearest single step beside the expected work. */
  readonly least_cap: { readonly cost_nanousd: number | null; readonly output_tokens: number };
  /**
   * The graver verdict of both caps; null without a cap of the batch.
   * `fits`: even the worst case fits, if tool results are no longer than it assumes. `may_pause`: only the worst case exceeds a cap. `will_pause`: the expected case
   * does. `cannot_start`: not even one request fits, by the caps of batch or runs. `unknown`: no price.
   */
  readonly verdict: 'fits' | 'may_pause' | 'will_pause' | 'cannot_start' | 'unknown' | null;
}

/** Tokens of a short answer. */
const OUTPUT_TOKENS_LOW = 50;
/** Steps of a run by kind of work, without statistics. */
const STEPS_PRIOR: Readonly<Record<WorkKind, number>> = {
  words: 1,
  typed: 1,
  memory: 1,
  rewrite: 2,
  tools: 3,
};
/** Answers have about a tenth of the tokens of their first prompt, within these bounds. */
const OUTPUT_SHARE = 0.08;
const OUTPUT_MIN = 25;
const OUTPUT_MAX = 150;
/** Searches of a step that may search, at most. */
const SEARCHES_EXPECTED = 1;
/** Share of an own step limit that runs with tools are expected to use. */
const OWN_LIMIT_SHARE = 0.8;
/** Tokens that results and their frame add between two steps: expected, and at most without measurements. */
const RESULT_TOKENS_EXPECTED = 100;
const RESULT_TOKENS_WORST = 2_000;
/** Steps that so small a share of the runs reaches are left out. */
const SHARE_MIN = 0.001;
/** Share of the window at which conversations are summarised. */
const SUMMARY_TRIGGER = 0.9;
const ROUNDS_MAX = 1_000_000;
/** Reservations after the first answers, as a multiple of the expected use; see {@link answerLimit}. */
const LEARNT_MARGIN = 1.8;
const LEARNT_OUTPUT_MIN = 256;

/** A step of the expected course of a run. */
interface ExpectedStep {
  /** Share of the runs that take it. */
  readonly share: number;
  readonly usage: Usage;
  readonly prompt: number;
}

/** Returns the expected steps of a run of the group, by its statistics or by a prior. */
function expectedSteps(group: RunGroup): readonly ExpectedStep[] {
  const { max_tokens, window_tokens } = group;
  // Without an end the number of steps is unknown; without an answer all means are.
  const work = group.work === null || group.work.runs === 0 || group.work.answers === 0 ? null : group.work;
  const first = group.input_tokens / group.runs;
  const guessed = Math.min(OUTPUT_MAX, Math.max(OUTPUT_MIN, first * OUTPUT_SHARE));
  const output = Math.min(max_tokens, work === null ? guessed : work.output_tokens / work.answers);
  const searches = Math.min(SEARCHES_EXPECTED, searchesMax(group.server_tools));
  const planned =
    group.kind === 'tools' && group.has_own_max_steps
      ? group.steps_max * OWN_LIMIT_SHARE
      : STEPS_PRIOR[group.kind];
  const steps: ExpectedStep[] = [];
  let grown = 0;
  for (let number = 1, share = 1; number <= group.steps_max && share >= SHARE_MIN; number++) {
    const counts = work === null ? undefined : countsOfStep(work, number);
    const prompt = Math.min(window_tokens, first + grown);
    const written =
      counts === undefined ? output : Math.min(max_tokens, counts.output_tokens / counts.answers);
    steps.push({
      share,
      prompt,
      usage: { ...cachedUsage(prompt, counts), output_tokens: written, web_searches: searches },
    });
    grown += growthAfter(work, number, written);
    share *= work === null ? Math.min(1, Math.max(0, planned - number)) : goesOnShare(work, counts);
  }
  return steps;
}

/** Returns the counts of a step number with answers. */
function countsOfStep(work: WorkStatistics, number: number): WorkCounts | undefined {
  const counts = work.steps[placeOfStep(number)];
  return counts === undefined || counts.answers === 0 ? undefined : counts;
}

/** Returns the share of runs with another step, of this step's answers or of all answers. */
function goesOnShare(work: WorkStatistics, counts: WorkCounts | undefined): number {
  const { answers, ended } = counts ?? { answers: work.answers, ended: work.runs };
  return Math.max(0, answers - ended) / answers;
}

/** Returns the tokens by which the next prompt is longer: as measured, or the answer and its results. */
function growthAfter(work: WorkStatistics | null, number: number, written: number): number {
  const here = work === null ? undefined : countsOfStep(work, number);
  const next = work === null ? undefined : countsOfStep(work, number + 1);
  if (here === undefined || next === undefined || here === next) return written + RESULT_TOKENS_EXPECTED;
  return Math.max(0, next.prompt_tokens / next.answers - here.prompt_tokens / here.answers);
}

/** Splits a prompt into cached and uncached tokens, in the shares of this step's answers. */
function cachedUsage(prompt: number, counts: WorkCounts | undefined): Usage {
  if (counts === undefined || counts.prompt_tokens === 0) return { ...NO_USAGE, input_tokens: prompt };
  const part = (tokens: number): number => (prompt * tokens) / counts.prompt_tokens;
  const cache_read_tokens = part(counts.cache_read_tokens);
  const cache_write_5m_tokens = part(counts.cache_write_5m_tokens);
  const cache_write_1h_tokens = part(counts.cache_write_1h_tokens);
  const input_tokens = prompt - cache_read_tokens - cache_write_5m_tokens - cache_write_1h_tokens;
  return { input_tokens, output_tokens: 0, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens };
}

/** Sums of one case of an estimate. */
interface Sums {
  requests: number;
  input: number;
  output: number;
  cost: number;
}

/** Sums of the expected case beside its range. */
interface Beside {
  read: number;
  written: number;
  uncached: number;
  cached: number;
}

/** Use of a request, and its reservation. */
interface Use {
  readonly cost: number;
  readonly output: number;
}

/** The same step of all runs, for the rounds. */
interface Wave {
  readonly requests: number;
  /** Sums over the requests. */
  readonly billed: Use;
  readonly reserved: Use;
  /** Reservations once answers of this batch have been learnt from. */
  readonly learnt: Use;
}

/** Adds the expected course of a group; returns its waves, or null without a price. */
function addExpected(
  prices: PriceTable,
  group: RunGroup,
  total: Sums,
  beside: Beside,
): readonly Wave[] | null {
  const { model_name, runs, cap } = group;
  const limit = limitOf(group);
  const costOf = (usage: Partial<Usage>): number | null =>
    batchCostNanoUsd(prices, model_name, { ...NO_USAGE, ...usage });
  const searches_max = searchesMax(group.server_tools);
  const reserveOf = (requests: number, input: number, output: number): Use => ({
    cost:
      requests *
      (reserveNanoUsd(prices, model_name, Math.min(group.window_max, input), output, searches_max) ?? 0),
    output: requests * output,
  });
  const sums = blank();
  const steps = expectedSteps(group);
  const unseen = (group.worst_input_tokens - group.input_tokens) / runs;
  let before = 0;
  const waves = steps.map(({ share, usage, prompt }, index): Wave | null => {
    const requests = runs * share;
    const { output_tokens, web_searches = 0 } = usage;
    const cost = costOf(usage);
    // Only a step with another behind it writes its new part to the cache.
    const kept = Math.min(before, prompt);
    const cache_write_5m_tokens = ((prompt - kept) * (steps[index + 1]?.share ?? 0)) / share;
    const input_tokens = prompt - kept - cache_write_5m_tokens;
    const cached = costOf({ cache_read_tokens: kept, cache_write_5m_tokens, input_tokens, output_tokens });
    const uncached = costOf({ input_tokens: prompt, output_tokens });
    sums.requests += requests;
    sums.input += requests * prompt;
    sums.output += requests * output_tokens;
    sums.cost += requests * (cost ?? 0);
    beside.read += requests * usage.cache_read_tokens;
    beside.written += requests * (usage.cache_write_5m_tokens + usage.cache_write_1h_tokens);
    // Searches have the same price in a batch.
    const searched = costOf({ web_searches }) ?? 0;
    beside.uncached += requests * ((uncached ?? 0) / prices.batch_factor + searched);
    beside.cached += requests * ((cached ?? 0) / prices.batch_factor + searched);
    before = prompt;
    const written = Math.min(limit, Math.max(LEARNT_OUTPUT_MIN, LEARNT_MARGIN * output_tokens));
    return cost === null
      ? null
      : {
          requests,
          billed: { cost: requests * cost, output: requests * output_tokens },
          reserved: reserveOf(requests, prompt + unseen, limit),
          learnt: reserveOf(requests, Math.min(prompt + unseen, LEARNT_MARGIN * prompt), written),
        };
  });
  addTo(total, {
    ...sums,
    output: Math.min(sums.output, runs * (cap.output_tokens ?? Infinity)),
    cost: Math.min(sums.cost, runs * (cap.cost_nanousd ?? Infinity)),
  });
  const priced = waves.filter((wave) => wave !== null);
  return priced.length < waves.length ? null : priced;
}

/** Returns the limit of an answer under a cap. */
function limitOf({ work, max_tokens, thinking_tokens }: RunGroup): number {
  return answerLimit(work, { max_tokens, thinking_tokens });
}

/** Adds one short answer a run. */
function addLow(prices: PriceTable, group: RunGroup, total: Sums): void {
  const { model_name, runs, cap } = group;
  const output_tokens = Math.min(
    group.max_tokens,
    OUTPUT_TOKENS_LOW,
    expectedSteps(group)[0]?.usage.output_tokens ?? 0,
  );
  const input_tokens = group.input_tokens / runs;
  const counts = group.work === null ? undefined : countsOfStep(group.work, 1);
  const usage = { ...cachedUsage(input_tokens, counts), output_tokens };
  const expected = batchCostNanoUsd(prices, model_name, usage) ?? 0;
  addTo(total, {
    requests: runs,
    input: runs * input_tokens,
    output: Math.min(runs * output_tokens, runs * (cap.output_tokens ?? Infinity)),
    cost: Math.min(runs * expected, runs * (cap.cost_nanousd ?? Infinity)),
  });
}

/**
 * Adds all steps of each run, with the prompts that caps reserve and long answers: of 99 in 100 by the statistics, with a
 * margin, else of `max_tokens`. A prompt that may fill the window is summarised before each step.
 */
function addWorst(prices: PriceTable, group: RunGroup, total: Sums): void {
  const { model_name, runs, cap, steps_max, work, summaries_max, summary_tokens, window_max } = group;
  const output = limitOf(group);
  const searches = searchesMax(group.server_tools);
  const written = Math.min(output, outputPercentile(work, 0.99) ?? output);
  const growth = written + 2 * measuredGrowth(work);
  let input = 0;
  let cost = 0;
  let prompt = group.worst_input_tokens / runs;
  for (let step = 0; step < steps_max; step++) {
    const shown = Math.min(window_max, prompt);
    input += shown;
    cost += reserveNanoUsd(prices, model_name, shown, output, searches) ?? 0;
    prompt += growth;
  }
  const summaries = prompt > SUMMARY_TRIGGER * group.window_tokens ? summaries_max : 0;
  input += summaries * window_max;
  cost += summaries * (reserveNanoUsd(prices, model_name, window_max, summary_tokens) ?? 0);
  addTo(total, {
    requests: runs * (steps_max + summaries_max),
    input: runs * input,
    output: Math.min(
      runs * (steps_max * output + summaries * summary_tokens),
      runs * (cap.output_tokens ?? Infinity),
    ),
    cost: Math.min(runs * cost, runs * (cap.cost_nanousd ?? Infinity)),
  });
}

/** Returns the mean growth of prompts between two steps beyond the answer. */
function measuredGrowth(work: WorkStatistics | null): number {
  const [first, second] = work === null ? [] : [countsOfStep(work, 1), countsOfStep(work, 2)];
  if (first === undefined || second === undefined) return RESULT_TOKENS_WORST / 2;
  return Math.max(0, second.prompt_tokens / second.answers - first.prompt_tokens / first.answers);
}

/**
 * Estimates a batch without spending anything.
 * `low`: one short answer a run. `expected`: by the work done under the same definition, or of the same class, or by a prior.
 * `worst`: every step of every run, see {@link addWorst}. The first reservations never exceed it, and a batch with this cap
 * does not pause unless answers are cut off and asked for again, or useless, or tool results are longer than assumed: twice the
 * measured growth of prompts, or 2,000 tokens a step.
 */
export function estimateBatch(prices: PriceTable, groups: readonly RunGroup[], cap: Cap): BatchEstimate {
  const total = { low: blank(), expected: blank(), worst: blank() };
  const beside: Beside = { read: 0, written: 0, uncached: 0, cached: 0 };
  const unpriced = new Set<string>();
  const shown = new Map<string, ServerTool>();
  const cheapest = { cost_nanousd: Infinity, output_tokens: Infinity };
  const waves: (readonly Wave[])[] = [];
  for (const group of groups) {
    if (group.runs === 0) continue;
    const limit = limitOf(group);
    const { model_name, least_worst_input_tokens, server_tools } = group;
    const searches = searchesMax(server_tools);
    const first = reserveNanoUsd(prices, model_name, least_worst_input_tokens, limit, searches) ?? 0;
    for (const tool of server_tools) shown.set(JSON.stringify(tool), tool);
    if (first <= (group.cap.cost_nanousd ?? Infinity) && limit <= (group.cap.output_tokens ?? Infinity)) {
      cheapest.cost_nanousd = Math.min(cheapest.cost_nanousd, first);
      cheapest.output_tokens = Math.min(cheapest.output_tokens, limit);
    }
    const own = addExpected(prices, group, total.expected, beside);
    if (own === null) unpriced.add(group.model_name);
    else waves.push(own);
    addLow(prices, group, total.low);
    addWorst(prices, group, total.worst);
  }
  const isEmpty = groups.every(({ runs }) => runs === 0);
  const range = (field: keyof Sums): Range => {
    const low = Math.round(Math.min(total.low[field], total.expected[field]));
    const expected = Math.round(total.expected[field]);
    return { low, expected, worst: Math.max(expected, Math.round(total.worst[field])) };
  };
  const isPriced = unpriced.size === 0;
  const cost = isPriced ? range('cost') : null;
  const output = range('output');
  const joined = joinWaves(waves);
  const largest = (field: keyof Use): number =>
    waves.flat().reduce((most, { requests, reserved }) => Math.max(most, reserved[field] / requests), 0);
  const cannotStart = !isEmpty && cheapest.output_tokens === Infinity;
  return {
    requests: range('requests'),
    request_bytes: groups.reduce((bytes, group) => bytes + group.request_bytes, 0),
    input_tokens: range('input'),
    output_tokens: output,
    cached_tokens: { read: Math.round(beside.read), written: Math.round(beside.written) },
    cost_nanousd: cost,
    realtime_nanousd: isPriced
      ? { uncached: Math.round(beside.uncached), cached: Math.round(beside.cached) }
      : null,
    unpriced_models: [...unpriced],
    server_tools: [...shown.values()].map((tool) => serverToolCost(tool, prices.web_search_per_1000)),
    rounds: isPriced && !cannotStart ? roundsOf(joined, cap) : null,
    least_cap: {
      cost_nanousd: cost === null ? null : Math.ceil(cost.expected + largest('cost')),
      output_tokens: Math.ceil(output.expected + largest('output')),
    },
    verdict: cannotStart
      ? 'cannot_start'
      : graverVerdict(
          verdictOf(cost, cap.cost_nanousd, cheapest.cost_nanousd),
          verdictOf(output, cap.output_tokens, cheapest.output_tokens),
        ),
  };
}

/** Joins the steps with the same number of all groups. */
function joinWaves(groups: readonly (readonly Wave[])[]): readonly Wave[] {
  const most = groups.reduce((longest, { length }) => Math.max(longest, length), 0);
  const sum = (one: Use, other: Use): Use => ({
    cost: one.cost + other.cost,
    output: one.output + other.output,
  });
  return Array.from({ length: most }, (_, step) =>
    groups
      .flatMap((waves) => waves[step] ?? [])
      .reduce((one, other) => ({
        requests: one.requests + other.requests,
        billed: sum(one.billed, other.billed),
        reserved: sum(one.reserved, other.reserved),
        learnt: sum(one.learnt, other.learnt),
      })),
  );
}

/**
 * Returns the provider batches in sequence that a cap allows for the expected work, each with as many requests as have room.
 * Null without a cap, or if the room ends first.
 */
function roundsOf(waves: readonly Wave[], cap: Cap): number | null {
  const room = { cost: cap.cost_nanousd ?? Infinity, output: cap.output_tokens ?? Infinity };
  if (room.cost === Infinity && room.output === Infinity) return null;
  let rounds = 0;
  for (const { requests, billed, reserved, learnt } of waves) {
    for (let left = requests; left > 1e-6;) {
      const each = rounds === 0 ? reserved : learnt;
      const share = Math.min(room.cost / Math.max(1, each.cost), room.output / Math.max(1, each.output));
      const fitting = Math.floor(share * requests + 1e-9);
      if ((fitting < 1 && share < 1) || rounds >= ROUNDS_MAX) return null;
      const sent = share >= 1 ? left : Math.min(left, fitting);
      room.cost -= (sent * billed.cost) / requests;
      room.output -= (sent * billed.output) / requests;
      left -= sent;
      rounds++;
    }
  }
  return rounds;
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
