import { expect, test } from 'vitest';
import { goalsOf, goalTable, tableOf } from '../report/comparison.ts';
import type { LineFigures } from '../report/summary.ts';
import { failedLine, lineOf } from './lines.ts';

function judged(
  lines: readonly LineFigures[],
  words: string,
): readonly (readonly [string, boolean | null])[] {
  return goalsOf(lines, 2)
    .filter(({ goal }) => goal.includes(words))
    .map(({ goal, measured, met }) => [`${goal}: ${measured}`, met]);
}

const SIZES = [1_000, 10_000, 100_000];

test('growth is judged from the smallest size and from 10,000 runs, to the largest', () => {
  const cpu = [0.5, 0.1, 0.15];
  const lines = SIZES.map((runs, index) => lineOf('nightshift', runs, { cpu: cpu[index] ?? 0 }));
  expect(judged(lines, 'grows by less')).toEqual([
    ['CPU a step grows by less than 20 % from 1,000 to 100,000 runs: 0.300 x', true],
    ['CPU a step grows by less than 20 % from 10,000 to 100,000 runs: 1.50 x', false],
  ]);
});

test('growth is not judged between sizes that lie close together', () => {
  expect(judged([lineOf('nightshift', 10_000), lineOf('nightshift', 30_000)], 'grows by less')).toEqual([]);
});

test('a peer is judged at 10,000 runs and at the largest size at which it was measured', () => {
  const lines = [
    ...SIZES.map((runs) => lineOf('nightshift', runs, { cpu: 0.2 })),
    ...SIZES.map((runs) => lineOf('pgboss-batch', runs, { cpu: runs === 10_000 ? 0.1 : 0.3 })),
    lineOf('bullmq', 10_000, { cpu: 1.6 }),
  ];
  expect(judged(lines, 'pgboss-batch')).toEqual([
    ['pgboss-batch takes at least 1 x the CPU a step (10,000 runs): 0.500 x', false],
    ['pgboss-batch takes at least 1 x the CPU a step (100,000 runs): 1.50 x', true],
  ]);
  expect(judged(lines, 'bullmq')).toEqual([
    ['bullmq takes at least 8 x the CPU a step (10,000 runs): 8.00 x', true],
  ]);
  expect(judged(lines.slice(0, -1), 'bullmq')).toEqual([
    ['bullmq takes at least 8 x the CPU a step (10,000 runs): not measured', null],
  ]);
});

test('WAL is held to 1.5 times the floor, at both sizes', () => {
  const lines = [10_000, 100_000].flatMap((runs) => [
    lineOf('floor-full', runs, { wal_bytes_per_step: 2_000 }),
    lineOf('nightshift', runs, { wal_bytes_per_step: runs === 10_000 ? 3_000 : 5_000 }),
  ]);
  expect(judged(lines, 'WAL a step')).toEqual([
    ['WAL a step at most 1.5 x floor-full (10,000 runs): 1.50 x', true],
    ['WAL a step at most 1.5 x floor-full (100,000 runs): 2.50 x', false],
  ]);
});

test('two workers are judged at the largest size at which both lines were measured', () => {
  const lines = [
    ...SIZES.map((runs) => lineOf('nightshift', runs, { speed: 1_000 })),
    ...SIZES.map((runs) => lineOf('nightshift-2', runs, { speed: runs === 100_000 ? 1_800 : 900 })),
    failedLine('nightshift-2', 300_000),
  ];
  expect(judged(lines, 'two workers')).toEqual([
    [
      'two workers give at least 1.6 x one where PostgreSQL is not the limit (100,000 runs): ' +
        "1.80 x; the limit was the workers' own order of work: engine 0.90, PostgreSQL 0.50, others 0.00 of 2 cores",
      true,
    ],
  ]);
});

test('the busiest processes name the limit of two workers', () => {
  const limitOf = (engine_cores: number, postgres_cores: number): string => {
    const two = lineOf('nightshift-2', 10_000, { engine_cores, postgres_cores });
    return judged([lineOf('nightshift', 10_000), two], 'two workers')[0]?.[0] ?? '';
  };
  expect(limitOf(1.1, 0.8)).toContain('the limit was the machine:');
  expect(limitOf(0.5, 0.9)).toContain('the limit was PostgreSQL:');
  expect(limitOf(0.4, 0.2)).toContain('the limit was waiting:');
});

test('a line that failed has no figures, and no goal is met by it', () => {
  const lines = [lineOf('floor-full', 10_000), failedLine('nightshift', 10_000)];
  expect(goalsOf(lines, 2).every(({ met }) => met === null)).toBe(true);
  expect(goalTable(goalsOf(lines, 2)).rows[0]?.slice(1)).toEqual(['not measured', '-']);
  expect(tableOf(lines).rows[1]).toEqual(['nightshift', 'failed: its process ended with code 1']);
});

test('the cost of an audit is shown for engines that have one', () => {
  const { head, rows } = tableOf([
    lineOf('floor-full', 10_000),
    lineOf('nightshift', 10_000, { audit_us_per_step_kept: 35.2 }),
  ]);
  const column = head.indexOf('audit us/step kept');
  expect(rows.map((row) => row[column])).toEqual(['', '35.2']);
});

test('stock settings are compared with tuned ones where both were measured', () => {
  const tuned = { ...lineOf('nightshift', 10_000, { cpu: 0.1 }), server: 'tuned' };
  expect(judged([lineOf('nightshift', 10_000, { cpu: 0.12 }), tuned], 'tuned')).toEqual([
    ['stock settings within 10 % of tuned ones (10,000 runs): 1.20 x', false],
  ]);
  for (const one of [tuned, lineOf('nightshift', 10_000)]) {
    expect(judged([one], 'tuned')).toEqual([
      [
        'stock settings within 10 % of tuned ones (10,000 runs): not measured: it takes `--server stock,tuned`',
        null,
      ],
    ]);
  }
});
