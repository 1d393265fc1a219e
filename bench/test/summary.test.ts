import { expect, test } from 'vitest';
import type { Measured, Phase, RunResult } from '../measure/measured-run.ts';
import { summarise } from '../report/summary.ts';
import { digits } from '../report/table.ts';

const KEY = { line: 'nightshift', runs: 1_000, server: 'stock' };

function phase(given: Partial<Phase>): Phase {
  return {
    wall_ms: 1_000,
    engine_cpu_ms: 0,
    postgres_cpu_ms: 0,
    redis_cpu_ms: 0,
    wal_bytes: 0,
    foreign_cores: 0,
    ...given,
  };
}

function measured(
  accept: Partial<Phase>,
  run: Partial<Phase>,
  provider_cpu_ms = 0,
  audit: Measured['audit'] = null,
): RunResult {
  const one: Measured = {
    accept: phase(accept),
    run: phase(run),
    idle_rss_mb: 80,
    idle_sum_mb: 150,
    peak_rss_mb: 200,
    peak_sum_mb: 350,
    figures: {
      provider_cpu_ms,
      counts: { statements: 60, transactions: 30 },
      loop: { p99_ms: 5, max_ms: 9 },
    },
    disk_bytes: 9_000_000,
    audit,
  };
  return { ok: true, measured: one };
}

test('CPU and WAL include accepting the runs, steps per second do not, and the provider is left out', () => {
  const result = measured(
    { wall_ms: 9_000, engine_cpu_ms: 30, postgres_cpu_ms: 60, wal_bytes: 3_000 },
    { wall_ms: 2_000, engine_cpu_ms: 330, postgres_cpu_ms: 240, redis_cpu_ms: 30, wal_bytes: 6_000 },
    60,
  );
  expect(summarise(KEY, [result]).figures).toMatchObject({
    steps_per_s: { median: 1_500 },
    cpu_ms_per_step: { median: 0.21 },
    engine_cpu_ms_per_step: 0.1,
    postgres_cpu_ms_per_step: 0.1,
    redis_cpu_ms_per_step: 0.01,
    wal_bytes_per_step: 3,
    disk_bytes_per_step: 3_000,
    statements_per_step: 0.02,
    rss_growth_kb_per_run: 204.8,
  });
});

test('an audit is divided by the stored steps and counted in no other figure', () => {
  const run = { engine_cpu_ms: 300, postgres_cpu_ms: 300 };
  const audits = [400, 600].map((postgres_cpu_ms) => ({ postgres_cpu_ms, steps_kept: 10_000 }));
  const results = audits.map((audit) => measured({}, run, 0, audit));
  expect(summarise(KEY, results).figures).toMatchObject({
    cpu_ms_per_step: { median: 0.2 },
    postgres_cpu_ms_per_step: 0.1,
    audit_us_per_step_kept: 50,
  });
  expect(summarise(KEY, [measured({}, run)]).figures?.audit_us_per_step_kept).toBeNull();
});

test('three repetitions give their median, two their mean', () => {
  const of = (...walls: readonly number[]): number | undefined =>
    summarise(
      KEY,
      walls.map((wall_ms) => measured({}, { wall_ms })),
    ).figures?.steps_per_s.median;
  expect(of(1_000, 3_000, 2_000)).toBe(1_500);
  expect(of(1_000, 3_000)).toBe(2_000);
});

test('a line that failed once has no figures', () => {
  const failed: RunResult = { ok: false, error: 'not done after 900 s' };
  expect(summarise(KEY, [measured({}, {}), failed])).toMatchObject({
    failure: 'not done after 900 s',
    figures: null,
  });
  expect(summarise(KEY, [])).toMatchObject({ failure: 'not run', figures: null });
});

test('figures are rounded to their significant digits', () => {
  expect([12_345.6, 123.4, 12.34, 1.234, 0.0123, 0.00123, Number.NaN].map(digits)).toEqual([
    ...['12,346', '123', '12.3', '1.23', '0.012', '0.0012', ''],
  ]);
});
