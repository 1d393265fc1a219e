import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sendJson } from '../../../libs/client/test/server.ts';
import { serveCommand } from './command.ts';
import { makeFolder } from './folder.ts';

/** Runs a command whose API refuses a place. Returns what the command says. */
async function refused(place: string, file: string, text: string, ...args: readonly string[]) {
  const path = join(makeFolder(), file);
  writeFileSync(path, text);
  const other = place.replace(/\d+/, (number) => String(Number(number) + 1));
  const errors = [
    { path: place, message: 'is wrong' },
    { path: other, message: `is the same as ${place}` },
  ];
  const { run } = await serveCommand((_, response) =>
    sendJson(
      response,
      { code: 'validation_failed', detail: `${place}: is wrong.`, errors, errors_total: 2 },
      422,
    ),
  );
  const { exitCode, stderr } = await run(...args, path);
  expect(exitCode).toBe(2);
  return stderr.trimEnd().split('\n');
}

const JSONL = '{"agent_id":"a","input":"x"}\n{"agent_id":"a","input":"y"}\n';
const HEADED = `{"batch":{"name":"n"}}\n${JSONL}`;
const NAMED = ['submit', '--name', 'n'];

test.each<[string, string, readonly string[], string, number]>([
  ['a file as it is', JSONL, ['submit'], '/lines/1/input', 1],
  ['a file behind the line of flags', JSONL, NAMED, '/lines/2/input', 1],
  ['a file whose first line takes the flags', HEADED, NAMED, '/lines/2/input', 2],
  ['a dry run', JSONL, ['submit', '--dry-run'], '/requests/0/input', 1],
  ['a dry run of a file with a first line', HEADED, ['submit', '--dry-run'], '/requests/0/input', 2],
  ['an estimate', JSONL, ['estimate', '--name', 'n'], '/requests/0/input', 1],
])('errors name the lines of %s', async (_, text, args, place, line) => {
  expect(await refused(place, 'tasks.jsonl', text, ...args)).toEqual([
    `/lines/${line}/input: is wrong.`,
    `  /lines/${line}/input: is wrong`,
    `  /lines/${line + 1}/input: is the same as /lines/${line}/input`,
  ]);
});

test('an error of a flag names its field', async () => {
  expect((await refused('/lines/1/batch/name', 'tasks.jsonl', JSONL, ...NAMED))[0]).toBe('/name: is wrong.');
});

const CSV = 'ticket,customer\nt-1,"Ann\nLee"\nt-2,Bob\n';
const ROUTE = ['--agent', 'agent-1', '--template', '{{ customer }}', '--custom-id', 'ticket'];

test.each<[string, readonly string[], string, string]>([
  ['a file', ['submit', ...ROUTE], '/lines/2/variables/customer', 'customer'],
  ['custom ids', ['submit', ...ROUTE], '/lines/2/custom_id', 'ticket'],
  ['a dry run', ['submit', '--dry-run', ...ROUTE], '/inputs/0/variables/customer', 'customer'],
])('errors name the lines and columns of %s of CSV', async (_, args, place, column) => {
  expect(await refused(place, 'tickets.csv', CSV, ...args)).toEqual([
    `Line 2, column ${column}: is wrong.`,
    `  Line 2, column ${column}: is wrong`,
    `  Line 4, column ${column}: is the same as Line 2, column ${column}`,
  ]);
});
