import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  batchMachine,
  providerBatchMachine,
  runMachine,
  stepMachine,
  STOP_REASONS,
  terminalStates,
  toolCallMachine,
  type Machine,
} from '../../libs/agent-core/src/index.ts';
import { errorsPage } from '../../scripts/docs/errors-page.ts';
import { table } from '../../scripts/docs/markdown.ts';
import { stateDiagram, statesPage } from '../../scripts/docs/states-page.ts';
import { STOP_REASON_DOCS } from '../../scripts/docs/stop-reasons.ts';

const machines: readonly Machine<string, string>[] = [
  batchMachine,
  runMachine,
  stepMachine,
  providerBatchMachine,
  toolCallMachine,
];

describe.each(machines)('the diagram of a $name', (machine) => {
  const lines = stateDiagram(machine).split('\n');

  test('has exactly its transitions, its start and its ends', () => {
    const drawn = lines.flatMap((line) => {
      const [, from = '', to = '', events = ''] = /^ {2}(\w+) --> (\w+): (.+)$/.exec(line) ?? [];
      return events === '' ? [] : events.split(', ').map((event) => `${from} ${event} ${to}`);
    });
    const legal = Object.entries(machine.events).flatMap(([event, { from, to }]) =>
      from.map((state) => `${state} ${event} ${to}`),
    );
    expect(drawn.toSorted()).toEqual(legal.toSorted());
    expect(lines.filter((line) => line.startsWith('  [*]'))).toEqual(
      machine.initial.map((state) => `  [*] --> ${state}`),
    );
    expect(lines.filter((line) => line.endsWith('--> [*]'))).toEqual(
      terminalStates(machine).map((state) => `  ${state} --> [*]`),
    );
  });

  test('is on the page with a row for each state and event', () => {
    const page = statesPage();
    expect(page).toContain(stateDiagram(machine));
    for (const [state, doc] of Object.entries(machine.states))
      expect(page).toContain(`| \`${state}\` | ${doc.meaning} |`);
    for (const event of Object.keys(machine.events)) expect(page).toContain(`| \`${event}\` | `);
  });
});

describe('stop reasons', () => {
  /** The code that decides and commits the ends of runs. */
  const sources = [
    'libs/agent-core/src/decide',
    'libs/agent-core/src/rules',
    'libs/db/src/commits',
    'apps/worker/src/flows',
  ]
    .map((folder) => join(import.meta.dirname, '../..', folder))
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => readFileSync(join(folder, file), 'utf8')),
    )
    .join('\n');

  test.each(STOP_REASONS)('%s is called reserved exactly while nothing ends a run with it', (reason) => {
    const ends = new RegExp(`(?:completed\\(|failed\\(|stop_?reason\\b)[^;]*'${reason}'`, 'i');
    expect(ends.test(sources)).toBe(STOP_REASON_DOCS[reason].reserved !== true);
  });
});

test('a pipe in a cell does not end the cell', () => {
  expect(table(['a'], [['x | y']])).toBe('| a |\n| --- |\n| x \\| y |');
});

test('an internal error is not listed as an answer', () => {
  const [answered = '', internal = ''] = errorsPage().split('## Seen in logs and at start');
  expect(answered).toContain('| `not_found` | 404 |');
  expect(answered).not.toContain('`fenced`');
  expect(internal).toContain('| `fenced` |');
});
