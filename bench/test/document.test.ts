import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readOptions, type Options } from '../options.ts';
import { goalsOf } from '../report/comparison.ts';
import { documentOf } from '../report/document.ts';
import { lineOf } from './lines.ts';

const machine = {
  cpu: 'Some CPU',
  cores: 2,
  memory_gib: 24,
  node: 'v24.0.0',
  postgres: '18.0',
  fsync_us: 90,
  commit: 'abc1234',
};
const lines = ['floor-full', 'nightshift', 'pgboss-batch'].map((name) => lineOf(name, 10_000));

function pageOf(...args: readonly string[]): string {
  return documentOf({
    machine,
    lines,
    others: [
      {
        title: 'A scenario',
        table: { head: ['how', 'CPU'], rows: [['this | that', '1.00']] },
        figures: {},
        goals: [],
        notes: ['It is said how.'],
      },
    ],
    goals: goalsOf(lines, machine.cores),
    notes: ['Something was left out.'],
    options: readOptions(args) as Options,
    date: '2026-11-21',
    command: 'npm run bench',
  });
}

test('the page has the lines, the goals and the scenarios of its run', () => {
  const page = pageOf();
  expect(page).toContain('Written by `npm run bench` on 2026-11-21');
  expect(page).toContain('## 10,000 runs, stock settings\n\n| engine |');
  expect(page).toContain('| CPU a step at most 2.0 x floor-full (10,000 runs) | 1.00 x | yes |');
  expect(page).toContain(
    '### A scenario\n\n| how | CPU |\n| --- | ---: |\n| this \\| that | 1.00 |\n\nIt is said how.',
  );
  expect(page).toContain('\n- Something was left out.\n');
});

test('the page that is kept says what is not measured, audits among it', () => {
  const sectionOf = (page: string): string | undefined =>
    /\n## What it does not measure\n\n([^]*?)\n\n## /.exec(page)?.[1];
  const kept = readFileSync(new URL('../../docs/BENCHMARKS.md', import.meta.url), 'utf8');
  expect(sectionOf(kept)).toContain('- Audits of the books');
  expect(sectionOf(kept)).toBe(sectionOf(pageOf()));
});

test('a line that was not measured is not explained', () => {
  expect(pageOf()).toContain('- **pgboss-batch**: ');
  expect(pageOf()).not.toContain('- **bullmq**: ');
});

test('what the floor and the peers leave out is told; the product leaves out nothing', () => {
  const about = pageOf()
    .split('\n')
    .filter((line) => /^- \*\*(floor-full|nightshift|pgboss-batch)\*\*: /.test(line));
  expect(about.map((line) => line.includes('Leaves out: '))).toEqual([true, false, true]);
  expect(about[0]).toContain('rows of tool calls');
});

test("the page names the workers' flags of Node", () => {
  expect(pageOf()).toContain("The product's workers run with `--min-semi-space-size=16 ");
});

test.each([
  ['1', 'in turns, once.'],
  ['2', 'in turns, twice; figures are means of the two.'],
  ['5', 'in turns, 5 times; figures are medians.'],
])('%s repetitions are called what they are', (reps, words) => {
  expect(pageOf('--reps', reps)).toContain(words);
});
