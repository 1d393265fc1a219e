/** The table of a comparison, and whether the goals were met. */
import { cpuRatio, scalingOf, speedRatio, type LineFigures } from './summary.ts';
import { digits, type Table } from './table.ts';

/** Lines of one size on one server. */
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
      'RSS MB',
      'KB/run',
      'loop p99/max ms',
      'foreign',
    ],
    rows: lines.map((line) => {
      if (line.figures === null) return [line.line, `failed: ${line.failure ?? ''}`];
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

const CPU_AHEAD: readonly (readonly [peer: string, times: number])[] = [
  ['bullmq', 8],
  ['dbos', 19],
  ['letta-port', 22],
  ['pgboss-batch', 1],
];

/** What the product is held to, on the first server that was measured. Null where this run cannot tell. */
export function goalsOf(all: readonly LineFigures[], cores: number): readonly Goal[] {
  const [first] = all;
  if (first === undefined) return [];
  const find = (line: string, runs: number, server = first.server): LineFigures | undefined =>
    all.find(
      (candidate) => candidate.line === line && candidate.runs === runs && candidate.server === server,
    );
  const sizes = [...new Set(all.map((line) => line.runs))].sort((a, b) => a - b);
  const size = sizes.includes(10_000) ? 10_000 : (sizes.at(-1) ?? 0);
  const product = find('nightshift', size);
  const judge = (
    goal: string,
    value: number | null | undefined,
    good: (value: number) => boolean,
    unit = '',
  ): Goal => ({
    goal,
    measured: value == null ? 'not measured' : `${digits(value)}${unit}`,
    met: value == null ? null : good(value),
  });
  const goals: Goal[] = [
    judge(
      `CPU a step at most 2.0 x floor-full (${size} runs)`,
      cpuRatio(product, find('floor-full', size)),
      (x) => x <= 2,
      ' x',
    ),
    judge(
      `steps/s at least 0.5 x floor-full (${size} runs)`,
      speedRatio(product, find('floor-full', size)),
      (x) => x >= 0.5,
      ' x',
    ),
    ...CPU_AHEAD.map(([peer, times]) => {
      const peerAt = [...sizes].reverse().find((runs) => find(peer, runs)?.figures != null) ?? size;
      const value = cpuRatio(find(peer, peerAt), find('nightshift', peerAt));
      return judge(
        `at least ${times} x less CPU a step than ${peer} (${peerAt} runs)`,
        value,
        (x) => x >= times,
        ' x',
      );
    }),
    judge('at most 0.05 SQL statements a step', product?.figures?.statements_per_step, (x) => x <= 0.05),
    judge('at most 0.01 transactions a step', product?.figures?.transactions_per_step, (x) => x <= 0.01),
  ];
  const [small, large] = [sizes[0] ?? 0, sizes.at(-1) ?? 0];
  if (large >= 10 * small) {
    const growth = cpuRatio(find('nightshift', large), find('nightshift', small));
    goals.push(
      judge(
        `CPU a step grows by less than 20 % from ${small} to ${large} runs`,
        growth,
        (x) => x < 1.2,
        ' x',
      ),
    );
  }
  goals.push(
    judge(
      `peak RSS of a worker under 400 MB (${large} runs)`,
      find('nightshift', large)?.figures?.peak_rss_mb.median,
      (x) => x < 400,
      ' MB',
    ),
    judge(
      'the same within 10 % on a filled table',
      cpuRatio(find('nightshift-filled', size), product),
      (x) => x < 1.1,
      ' x',
    ),
  );
  if (all.some((line) => line.server === 'tuned') && all.some((line) => line.server === 'stock')) {
    const ratio = cpuRatio(find('nightshift', size, 'stock'), find('nightshift', size, 'tuned'));
    goals.push(judge('stock settings within 10 % of tuned ones', ratio, (x) => x < 1.1, ' x'));
  }
  const scales = (tools: string, one: string, two: string): Goal => {
    const scaling = scalingOf(find(one, size), find(two, size), cores);
    return {
      goal: `two workers give at least 1.6 x one where PostgreSQL is not the limit, ${tools}`,
      measured:
        scaling === null ? 'not measured' : `${digits(scaling.gain)} x; the limit was ${scaling.limit}`,
      met: scaling === null ? null : scaling.gain >= 1.6,
    };
  };
  goals.push(
    scales('tools that wait', 'nightshift-waiting', 'nightshift-waiting-2'),
    scales('tools that answer at once', 'nightshift', 'nightshift-2'),
  );
  return goals;
}

export function goalTable(goals: readonly Goal[]): Table {
  return {
    head: ['goal', 'measured', 'met'],
    rows: goals.map(({ goal, measured, met }) => [goal, measured, met === null ? '-' : met ? 'yes' : 'NO']),
  };
}
