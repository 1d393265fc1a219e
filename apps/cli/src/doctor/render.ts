import type { Output, Style } from '../output.ts';
import { plainOf, renderTable } from '../table.ts';
import type { Schedules } from './diagnose.ts';
import type { Finding } from './finding.ts';

const SIGNS: Readonly<Record<Finding['status'], readonly [sign: string, style: Style]>> = {
  ok: ['✔', 'green'],
  warning: ['!', 'yellow'],
  failing: ['✖', 'red'],
};

/** Renders a line for each finding, and one for its advice. */
export function renderFindings(findings: readonly Finding[], { paint }: Pick<Output, 'paint'>): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  return findings
    .flatMap(({ name, status, finding, advice }) => {
      const [sign, style] = SIGNS[status];
      const line = `${paint(style, sign)} ${name.padEnd(width)}  ${plainOf(finding)}`;
      return advice === null ? [line] : [line, `  ${' '.repeat(width)}  → ${plainOf(advice)}`];
    })
    .join('\n');
}

/** Renders what the ticks of schedules will meet. */
export function renderSchedules({ schedules, is_cut }: Schedules, columns: number): string {
  if (schedules.length === 0) return '';
  const { text } = renderTable(
    ['next tick', 'schedule', 'ticks', 'agents', 'cap usd', 'left usd', 'last usd', 'meets'],
    schedules.map((schedule) => [
      new Date(schedule.next_tick).toLocaleString('sv-SE').slice(0, 'yyyy-mm-dd hh:mm'.length),
      schedule.name,
      schedule.ticks,
      schedule.agents,
      schedule.max_cost_usd,
      schedule.left_usd,
      schedule.last_costs_usd[0],
      schedule.problems.join('; '),
    ]),
    columns,
  );
  return `\n\n${text.trimEnd()}${is_cut ? '\n… and more' : ''}`;
}
