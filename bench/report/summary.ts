/** Summarises a line: medians over its repetitions, and ratios to other lines. */
import { median, spreadOf, type Spread } from '../measure/statistics.ts';
import type { Measured, RunResult } from '../measure/measured-run.ts';
import { STEPS } from '../workload.ts';

export interface LineFigures {
  readonly line: string;
  readonly runs: number;
  readonly server: string;
  readonly reps: number;
  /** Reason for missing figures. */
  readonly failure: string | null;
  readonly figures: {
    /** Steps per second of wall time, from the start of the work to the end of the last run. */
    readonly steps_per_s: Spread;
    /**
     * CPU milliseconds per step for accepting and running, engine and servers; the provider's work is left
     * out.
     */
    readonly cpu_ms_per_step: Spread;
    readonly engine_cpu_ms_per_step: number;
    readonly postgres_cpu_ms_per_step: number;
    readonly redis_cpu_ms_per_step: number;
    readonly statements_per_step: number;
    readonly transactions_per_step: number;
    readonly wal_bytes_per_step: number;
    readonly disk_bytes_per_step: number;
    /** CPU microseconds of the server for one audit, per step in the database; null without an audit. */
    readonly audit_us_per_step_kept: number | null;
    readonly peak_rss_mb: Spread;
    readonly rss_growth_kb_per_run: number;
    readonly loop_p99_ms: number;
    readonly loop_max_ms: number;
    /** Cores that the engine and the server kept busy. */
    readonly engine_cores: number;
    readonly postgres_cores: number;
    readonly foreign_cores: Spread;
  } | null;
}

export interface LineKey {
  readonly line: string;
  readonly runs: number;
  readonly server: string;
}

/** Combines the repetitions of a line. One failed repetition leaves the line without figures. */
export function summarise(key: LineKey, results: readonly RunResult[]): LineFigures {
  const failed = results.find((result) => !result.ok);
  const measured = results.flatMap((result) => (result.ok ? [result.measured] : []));
  const base = { ...key, reps: results.length };
  if (failed?.ok === false) return { ...base, failure: failed.error, figures: null };
  if (measured.length === 0) return { ...base, failure: 'not run', figures: null };
  const steps = key.runs * STEPS;
  const audits = measured.flatMap(({ audit }) => (audit === null ? [] : [audit]));
  const spread = (of: (one: Measured) => number): Spread => spreadOf(measured.map(of));
  const middle = (of: (one: Measured) => number): number => spread(of).median;
  const engineCpu = (one: Measured): number =>
    one.accept.engine_cpu_ms + one.run.engine_cpu_ms - one.figures.provider_cpu_ms;
  const postgresCpu = (one: Measured): number => one.accept.postgres_cpu_ms + one.run.postgres_cpu_ms;
  const redisCpu = (one: Measured): number => one.accept.redis_cpu_ms + one.run.redis_cpu_ms;
  return {
    ...base,
    failure: null,
    figures: {
      steps_per_s: spread((one) => (steps / one.run.wall_ms) * 1000),
      cpu_ms_per_step: spread((one) => (engineCpu(one) + postgresCpu(one) + redisCpu(one)) / steps),
      engine_cpu_ms_per_step: middle((one) => engineCpu(one) / steps),
      postgres_cpu_ms_per_step: middle((one) => postgresCpu(one) / steps),
      redis_cpu_ms_per_step: middle((one) => redisCpu(one) / steps),
      statements_per_step: middle((one) => one.figures.counts.statements / steps),
      transactions_per_step: middle((one) => one.figures.counts.transactions / steps),
      wal_bytes_per_step: middle((one) => (one.accept.wal_bytes + one.run.wal_bytes) / steps),
      disk_bytes_per_step: middle((one) => one.disk_bytes / steps),
      audit_us_per_step_kept:
        audits.length === 0
          ? null
          : median(audits.map((audit) => (audit.postgres_cpu_ms * 1000) / audit.steps_kept)),
      peak_rss_mb: spread((one) => one.peak_rss_mb),
      rss_growth_kb_per_run: middle(
        (one) => (Math.max(0, one.peak_sum_mb - one.idle_sum_mb) * 1024) / key.runs,
      ),
      loop_p99_ms: middle((one) => one.figures.loop.p99_ms),
      loop_max_ms: middle((one) => one.figures.loop.max_ms),
      engine_cores: middle((one) => one.run.engine_cpu_ms / one.run.wall_ms),
      postgres_cores: middle((one) => one.run.postgres_cpu_ms / one.run.wall_ms),
      foreign_cores: spread((one) => one.run.foreign_cores),
    },
  };
}

/** Divides the CPU per step of two lines of one size and server; null where either has no figures. */
export function cpuRatio(of: LineFigures | undefined, to: LineFigures | undefined): number | null {
  if (of?.figures == null || to?.figures == null) return null;
  return of.figures.cpu_ms_per_step.median / to.figures.cpu_ms_per_step.median;
}

/** Divides the steps per second of two lines. */
export function speedRatio(of: LineFigures | undefined, to: LineFigures | undefined): number | null {
  if (of?.figures == null || to?.figures == null) return null;
  return of.figures.steps_per_s.median / to.figures.steps_per_s.median;
}

/** Divides the WAL per step of two lines. */
export function walRatio(of: LineFigures | undefined, to: LineFigures | undefined): number | null {
  if (of?.figures == null || to?.figures == null) return null;
  return of.figures.wal_bytes_per_step / to.figures.wal_bytes_per_step;
}

/** Below this many busy cores, two workers are waiting. */
const WAITING_CORES = 0.6;

/** Returns the speed-up by a second worker and the limiting resource. */
export function scalingOf(
  one: LineFigures | undefined,
  two: LineFigures | undefined,
  cores: number,
): { readonly gain: number; readonly limit: string } | null {
  const gain = speedRatio(two, one);
  if (gain === null || two?.figures == null) return null;
  const { engine_cores, postgres_cores, foreign_cores } = two.figures;
  const busy = engine_cores + postgres_cores + foreign_cores.median;
  const share = `engine ${engine_cores.toFixed(2)}, PostgreSQL ${postgres_cores.toFixed(2)}, others ${foreign_cores.median.toFixed(2)} of ${cores} cores`;
  if (busy > 0.9 * cores) return { gain, limit: `the machine: ${share}` };
  if (postgres_cores > engine_cores) return { gain, limit: `PostgreSQL: ${share}` };
  if (engine_cores < WAITING_CORES) return { gain, limit: `waiting: ${share}` };
  return { gain, limit: `the workers' own order of work: ${share}` };
}
