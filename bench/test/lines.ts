import { spreadOf } from '../measure/statistics.ts';
import type { LineFigures } from '../report/summary.ts';

type Figures = NonNullable<LineFigures['figures']>;

/** Builds a measured line with plain figures except the given ones. */
export function lineOf(
  line: string,
  runs: number,
  given: { readonly cpu?: number; readonly speed?: number; readonly rss?: number } & Partial<Figures> = {},
): LineFigures {
  const { cpu = 0.1, speed = 1_000, rss = 100, ...others } = given;
  return {
    line,
    runs,
    server: 'stock',
    reps: 1,
    failure: null,
    figures: {
      steps_per_s: spreadOf([speed]),
      cpu_ms_per_step: spreadOf([cpu]),
      engine_cpu_ms_per_step: cpu / 2,
      postgres_cpu_ms_per_step: cpu / 2,
      redis_cpu_ms_per_step: 0,
      statements_per_step: 0.02,
      transactions_per_step: 0.01,
      wal_bytes_per_step: 2_000,
      disk_bytes_per_step: 3_000,
      audit_us_per_step_kept: null,
      peak_rss_mb: spreadOf([rss]),
      rss_growth_kb_per_run: 3,
      loop_p99_ms: 5,
      loop_max_ms: 20,
      engine_cores: 0.9,
      postgres_cores: 0.5,
      foreign_cores: spreadOf([0]),
      ...others,
    },
  };
}

export function failedLine(line: string, runs: number): LineFigures {
  return {
    line,
    runs,
    server: 'stock',
    reps: 1,
    failure: 'its process ended with code 1\n    at run',
    figures: null,
  };
}
