import type { RunState, StopReason } from '../machine/run.ts';
import type { Cap } from '../money/budget.ts';
import { projectTotal, type ProjectedRange } from '../money/projection.ts';
import { toUsd } from '../money/to-usd.ts';

/** What a batch does after its pilot. */
export interface PilotSettings {
  /** Runs that go first. */
  readonly runs: number;
  readonly then: 'continue' | 'pause';
  /** Share of failed runs above which the batch pauses. */
  readonly failure_rate: number;
}

/** Default of {@link PilotSettings.runs}. */
export const PILOT_RUNS_DEFAULT = 20;
/** Default of {@link PilotSettings.failure_rate}. */
export const PILOT_FAILURE_RATE_DEFAULT = 0.2;

/**
 * - `running`: its runs go alone.
 * - `waiting`: its runs have ended; the batch is paused and waits for a resume.
 * - `stopped`: its runs have ended, and failures or the projection paused the batch; or the batch ended or was cancelled
 *   before the other runs went.
 * - `passed`: the other runs go.
 */
export const PILOT_STATES = ['running', 'waiting', 'passed', 'stopped'] as const;
export type PilotState = (typeof PILOT_STATES)[number];

/** An ended run of a pilot. */
export interface PilotRun {
  readonly state: RunState;
  readonly stop_reason: StopReason | null;
  readonly error: string | null;
  readonly steps: number;
  readonly output_tokens: number;
  /** Null for a model without a price. */
  readonly cost_nanousd: number | null;
}

export interface PilotFacts {
  readonly settings: PilotSettings;
  /** Runs of the whole batch. */
  readonly total: number;
  /** Runs of the whole batch that have not ended. */
  readonly open_runs: number;
  readonly cap: Cap;
  readonly runs: readonly PilotRun[];
}

/** Projected totals of the whole batch. */
export interface PilotProjection {
  /** Null if a model has no price. */
  readonly cost_nanousd: ProjectedRange | null;
  readonly output_tokens: ProjectedRange;
}

/** The results of a pilot. */
export interface PilotResult {
  readonly completed: number;
  /** Failed and expired runs. */
  readonly failed: number;
  readonly cancelled: number;
  /** Null if a model has no price. */
  readonly cost_nanousd: number | null;
  readonly output_tokens: number;
  readonly steps_mean: number;
  readonly steps_max: number;
  /** Runs by stop reason. */
  readonly stop_reasons: Readonly<Record<string, number>>;
  /** The most frequent errors. */
  readonly errors: readonly { readonly message: string; readonly runs: number }[];
  readonly projection: PilotProjection;
}

export interface AfterPilot {
  readonly move: 'go_on' | 'pause';
  readonly state: Exclude<PilotState, 'running'>;
  /** Why the batch pauses; null if it goes on. */
  readonly reason: string | null;
  readonly result: PilotResult;
}

const ERRORS_MAX = 10;
const ERROR_CHARS_MAX = 300;

/**
 * Decides about a batch whose pilot has ended. `pause` always pauses; `continue` pauses if too many runs failed, or if the
 * expected total exceeds a cap of the batch. A batch without open runs goes on to its end.
 */
export function decideAfterPilot(facts: PilotFacts): AfterPilot {
  const { settings, open_runs, runs } = facts;
  const result = resultOf(facts);
  if (open_runs <= 0) return { move: 'go_on', state: 'passed', reason: null, result };
  const problem = problemOf(facts, result);
  if (problem === null && settings.then === 'continue')
    return { move: 'go_on', state: 'passed', reason: null, result };
  const said = [
    `The pilot of ${runs.length} ${runs.length === 1 ? 'run' : 'runs'} has ended.`,
    ...(problem === null ? [] : [problem.sentence]),
    ...(problem?.kind === 'cap' ? [] : [sentenceOf(facts, result.projection)]),
    problem?.kind === 'cap'
      ? 'Raise the cap and resume the batch to send the others, or cancel it.'
      : 'Resume the batch to send the others, or cancel it.',
  ];
  const state = settings.then === 'pause' ? 'waiting' : 'stopped';
  return { move: 'pause', state, reason: said.join(' '), result };
}

interface Problem {
  readonly kind: 'failures' | 'cap';
  readonly sentence: string;
}

/** Finds too many failures, or else a projection above a cap. */
function problemOf({ settings, cap, runs }: PilotFacts, { failed, projection }: PilotResult): Problem | null {
  if (failed > settings.failure_rate * runs.length)
    return {
      kind: 'failures',
      sentence: `${failed} of its runs failed, more than the failure_rate of ${settings.failure_rate} allows.`,
    };
  const cost = projection.cost_nanousd?.expected ?? 0;
  if (cap.cost_nanousd !== null && cost > cap.cost_nanousd)
    return {
      kind: 'cap',
      sentence: `All runs are projected to cost $${roughUsd(cost)}, more than the max_cost_usd of ${toUsd(cap.cost_nanousd)}.`,
    };
  const tokens = projection.output_tokens.expected;
  if (cap.output_tokens !== null && tokens > cap.output_tokens)
    return {
      kind: 'cap',
      sentence: `All runs are projected to write ${tokens} tokens, more than the max_output_tokens of ${cap.output_tokens}.`,
    };
  return null;
}

function sentenceOf({ total }: PilotFacts, { cost_nanousd: cost, output_tokens }: PilotProjection): string {
  const all = `All ${total} runs are projected to`;
  if (cost === null) return `${all} write ${output_tokens.expected} tokens.`;
  const { low, expected, high } = cost;
  const range =
    low === null || high === null ? '' : ` (80 % interval: $${roughUsd(low)} to $${roughUsd(high)})`;
  return `${all} cost $${roughUsd(expected)}${range}.`;
}

/** Prints dollars with cents, and amounts below $1 with three digits, without an exponent. */
function roughUsd(nanoUsd: number): string {
  const usd = nanoUsd / 1e9;
  const digits = usd === 0 ? 0 : 2 - Math.floor(Math.log10(Math.abs(usd)));
  return usd.toFixed(Math.min(9, Math.max(2, digits)));
}

function resultOf({ total, runs }: PilotFacts): PilotResult {
  const count = (...states: readonly RunState[]): number =>
    runs.filter(({ state }) => states.includes(state)).length;
  const costs = runs.map(({ cost_nanousd }) => cost_nanousd).filter((cost) => cost !== null);
  const isPriced = costs.length === runs.length;
  const steps = runs.map((run) => run.steps);
  const tokens = runs.map((run) => run.output_tokens);
  return {
    completed: count('completed'),
    failed: count('failed', 'expired'),
    cancelled: count('cancelled'),
    cost_nanousd: isPriced ? sum(costs) : null,
    output_tokens: sum(tokens),
    steps_mean: runs.length === 0 ? 0 : Math.round((sum(steps) / runs.length) * 100) / 100,
    steps_max: Math.max(0, ...steps),
    stop_reasons: Object.fromEntries(countBy(runs.flatMap(({ stop_reason }) => stop_reason ?? []))),
    errors: countBy(runs.flatMap(({ error }) => error?.slice(0, ERROR_CHARS_MAX).toWellFormed() ?? []))
      .slice(0, ERRORS_MAX)
      .map(([message, times]) => ({ message, runs: times })),
    projection: {
      cost_nanousd: isPriced ? projectTotal(costs, total) : null,
      output_tokens: projectTotal(tokens, total),
    },
  };
}

/** Counts equal words, the most frequent first. */
function countBy(words: readonly string[]): readonly (readonly [string, number])[] {
  return [...Map.groupBy(words, (word) => word)]
    .map(([word, all]) => [word, all.length] as const)
    .sort(([a, times], [b, others]) => others - times || (a < b ? -1 : 1));
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
