/** Builds the comparison's table and judges its goals. */
import { cpuRatio, scalingOf, speedRatio, walRatio, type LineFigures } from './summary.ts';
import { digits, type Table } from './table.ts';

/** Builds the table for the lines of one size on one server. */
export function tableOf(lines: readonly LineFigures[]): Table {
  const named = (name: string): LineFigures | undefined => lines.find((line) => line.line === name);
  const floor = named('floor-full');
  const product = named('nightshift');
  return {
    head: [
      'engine',
      'steps/s',
      'CPU ms/step',
      'min..max',
      'engine',
      'PostgreSQL',
      'Redis',
      'x floor-full',
      'x nightshift',
      'stmts/step',
      'tx/step',
      'WAL B/step',
      'disk B/step',
      'audit us/step kept',
      'RSS MB',
      'KB/run',
      'loop p99/max ms',
      'foreign',
    ],
    rows: lines.map((line) => {
      // The failure may carry a stack trace.
      if (line.figures === null) return [line.line, `failed: ${line.failure?.split('\n')[0] ?? ''}`];
      const { figures } = line;
      const ratio = (to: LineFigures | undefined): string => {
        const value = cpuRatio(line, to);
        return value === null ? '' : `${digits(value)}x`;
      };
      return [
        line.line,
        digits(figures.steps_per_s.median),
        digits(figures.cpu_ms_per_step.median),
        `${digits(figures.cpu_ms_per_step.min)}..${digits(figures.cpu_ms_per_step.max)}`,
        digits(figures.engine_cpu_ms_per_step),
        digits(figures.postgres_cpu_ms_per_step),
        digits(figures.redis_cpu_ms_per_step),
        ratio(floor),
        ratio(product),
        digits(figures.statements_per_step),
        digits(figures.transactions_per_step),
        digits(figures.wal_bytes_per_step),
        digits(figures.disk_bytes_per_step),
        digits(figures.audit_us_per_step_kept ?? Number.NaN),
        digits(figures.peak_rss_mb.median),
        digits(figures.rss_growth_kb_per_run),
        `${digits(figures.loop_p99_ms)} / ${digits(figures.loop_max_ms)}`,
        digits(figures.foreign_cores.median),
      ];
    }),
  };
}

export interface Goal {
  readonly goal: string;
  readonly measured: string;
  readonly met: boolean | null;
}

/** Least ratio of each peer's CPU per step to the product's. */
const CPU_OF_PEERS: readonly (readonly [peer: string, times: number])[] = [
  ['bullmq', 8],
  ['pgboss-batch', 1],
];

/** Judges the product's goals on the first server; null where this run cannot tell. */
export function goalsOf(all: readonly LineFigures[], cores: number): readonly Goal[] {
  const [first] = all;
  if (first === undefined) return [];
  const find = (line: string, runs: number, server = first.server): LineFigures | undefined =>
    all.find(
      (candidate) => candidate.line === line && candidate.runs === runs && candidate.server === server,
    );
  const sizes = [...new Set(all.map((line) => line.runs))].sort((a, b) => a - b);
  const [small = 0, large = 0] = [sizes[0], sizes.at(-1)];
  const size = sizes.includes(10_000) ? 10_000 : large;
  const measured = (...lines: readonly string[]): readonly number[] =>
    sizes.filter((runs) => lines.every((line) => find(line, runs)?.figures != null));
  const product = find('nightshift', size);
  const growths = unique([small, size]).filter((from) => from > 0 && large >= 10 * from);
  const ofStock = judge(
    `stock settings within 10 % of tuned ones (${runsOf(size)})`,
    cpuRatio(find('nightshift', size, 'stock'), find('nightshift', size, 'tuned')),
    (x) => x < 1.1,
    ' x',
  );
  const bothServers = ['stock', 'tuned'].every((server) => all.some((line) => line.server === server));
  const stockGoal = bothServers
    ? ofStock
    : { ...ofStock, measured: `${ofStock.measured}: it takes \`--server stock,tuned\`` };
  const goals: Goal[] = [
    judge(
      `CPU a step at most 2.0 x floor-full (${runsOf(size)})`,
      cpuRatio(product, find('floor-full', size)),
      (x) => x <= 2,
      ' x',
    ),
    judge(
      `steps/s at least 0.5 x floor-full (${runsOf(size)})`,
      speedRatio(product, find('floor-full', size)),
      (x) => x >= 0.5,
      ' x',
    ),
    ...CPU_OF_PEERS.flatMap(([peer, times]) => {
      const both = measured('nightshift', peer);
      // The usual size alone does not show how a peer grows.
      const at = unique([size, both.at(-1) ?? size]).filter((runs) => both.includes(runs));
      return (at.length === 0 ? [size] : at).map((runs) =>
        judge(
          `${peer} takes at least ${times} x the CPU a step (${runsOf(runs)})`,
          cpuRatio(find(peer, runs), find('nightshift', runs)),
          (x) => x >= times,
          ' x',
        ),
      );
    }),
    judge(
      `at most 0.05 SQL statements a step (${runsOf(size)})`,
      product?.figures?.statements_per_step,
      (x) => x <= 0.05,
    ),
    judge(
      `at most 0.01 transactions a step (${runsOf(size)})`,
      product?.figures?.transactions_per_step,
      (x) => x <= 0.01,
    ),
    ...unique([size, large]).map((runs) =>
      judge(
        `WAL a step at most 1.5 x floor-full (${runsOf(runs)})`,
        walRatio(find('nightshift', runs), find('floor-full', runs)),
        (x) => x <= 1.5,
        ' x',
      ),
    ),
    ...growths.map((from) =>
      judge(
        `CPU a step grows by less than 20 % from ${count(from)} to ${runsOf(large)}`,
        cpuRatio(find('nightshift', large), find('nightshift', from)),
        (x) => x < 1.2,
        ' x',
      ),
    ),
    judge(
      `peak RSS of a worker under 400 MB (${runsOf(large)})`,
      find('nightshift', large)?.figures?.peak_rss_mb.median,
      (x) => x < 400,
      ' MB',
    ),
    judge(
      `steps/s with a tool that waits and exports concurrency at least 0.8 x nightshift (${runsOf(size)})`,
      speedRatio(find('nightshift-concurrent', size), product),
      (x) => x >= 0.8,
      ' x',
    ),
    stockGoal,
  ];
  // Small sizes have few provider batches, and one worker ingests each.
  const runs = measured('nightshift', 'nightshift-2').at(-1) ?? size;
  const scaling = scalingOf(find('nightshift', runs), find('nightshift-2', runs), cores);
  goals.push({
    goal: `two workers give at least 1.6 x one where PostgreSQL is not the limit (${runsOf(runs)})`,
    measured: scaling === null ? 'not measured' : `${digits(scaling.gain)} x; the limit was ${scaling.limit}`,
    met: scaling === null ? null : scaling.gain >= 1.6,
  });
  return goals;
}

function judge(
  goal: string,
  value: number | null | undefined,
  good: (value: number) => boolean,
  unit = '',
): Goal {
  if (value == null) return { goal, measured: 'not measured', met: null };
  return { goal, measured: `${digits(value)}${unit}`, met: good(value) };
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function runsOf(size: number): string {
  return `${count(size)} runs`;
}

function unique(values: readonly number[]): readonly number[] {
  return [...new Set(values)];
}

export function goalTable(goals: readonly Goal[]): Table {
  return {
    head: ['goal', 'measured', 'met'],
    rows: goals.map(({ goal, measured, met }) => [goal, measured, met === null ? '-' : met ? 'yes' : 'NO']),
  };
}
