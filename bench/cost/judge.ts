/** The table and the goals of the cost bench. */
import type { Goal } from '../report/comparison.ts';
import { digits, type Table } from '../report/table.ts';

/** Dollars of one run of a cell. */
export interface CellCost {
  readonly hit_rate: number;
  readonly steps: number;
  readonly prompt_tokens: number;
  readonly batch_usd: number;
  readonly realtime_cached_usd: number;
  readonly realtime_plain_usd: number;
}

/** Greatest ratio to the commit before, by steps. */
const RATIO_TO_BEFORE: readonly (readonly [steps: number, ratio: number])[] = [
  [1, 1.01],
  [5, 0.7],
  [10, 0.5],
];

/** Reads the costs of an earlier run: its `--out` file, or its standard output. */
export function readCosts(text: string): readonly CellCost[] {
  const last = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { bench?: unknown; cells?: unknown };
  if (last.bench !== 'cost' || !Array.isArray(last.cells))
    throw new Error('--cost-before: the file does not end with the JSON line of --cost.');
  return last.cells as readonly CellCost[];
}

function costBefore(cell: CellCost, before: readonly CellCost[]): number {
  const same = before.find(
    ({ hit_rate, steps, prompt_tokens }) =>
      hit_rate === cell.hit_rate && steps === cell.steps && prompt_tokens === cell.prompt_tokens,
  );
  return same?.batch_usd ?? Number.NaN;
}

export function costTable(costs: readonly CellCost[], before: readonly CellCost[]): Table {
  const ratio = (value: number): string => (Number.isFinite(value) ? `${digits(value)}x` : '');
  return {
    head: [
      'hits',
      'prompt',
      'steps',
      'batch',
      'before',
      'x before',
      'cached',
      'x cached',
      'plain',
      'x plain',
    ],
    rows: costs.map((cell) => {
      const { hit_rate, steps, prompt_tokens, batch_usd, realtime_cached_usd, realtime_plain_usd } = cell;
      const usdBefore = costBefore(cell, before);
      return [
        `${digits(hit_rate * 100)} %`,
        prompt_tokens.toLocaleString('en-US'),
        String(steps),
        digits(batch_usd),
        digits(usdBefore),
        ratio(batch_usd / usdBefore),
        digits(realtime_cached_usd),
        ratio(batch_usd / realtime_cached_usd),
        digits(realtime_plain_usd),
        ratio(batch_usd / realtime_plain_usd),
      ];
    }),
  };
}

/** Judges the costs at one hit rate. A goal is met when every prompt meets it. */
export function costGoals(costs: readonly CellCost[], before: readonly CellCost[]): readonly Goal[] {
  const ofBefore = RATIO_TO_BEFORE.map(([steps, most]) => {
    const ratios = costs
      .filter((cell) => cell.steps === steps)
      .map((cell) => cell.batch_usd / costBefore(cell, before));
    return judged(`loops of ${steps}: at most ${most} x the commit before`, ratios, most);
  });
  const toCached = costs.map(({ batch_usd, realtime_cached_usd }) => batch_usd / realtime_cached_usd);
  return [...ofBefore, judged('never dearer than cached realtime', toCached, 1)];
}

function judged(goal: string, ratios: readonly number[], most: number): Goal {
  const worst = Math.max(...ratios);
  if (!Number.isFinite(worst)) return { goal, measured: 'not measured', met: null };
  return { goal, measured: `${digits(worst)} x at worst`, met: worst <= most };
}
