import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { expect, test } from 'vitest';
import { COMMANDS } from '../src/index.ts';
import { OPERATIONS } from './operations.ts';

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId?: string }>>>>;
}

/** Ids of all operations of the API. */
function operationIds(): string[] {
  const text = readFileSync(join(import.meta.dirname, '../../api/openapi.json'), 'utf8');
  const { paths } = JSON.parse(text) as Description;
  return Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ operationId }) => (operationId === undefined ? [] : [operationId]));
}

/** Command lines that do something, such as `agents ls`. */
async function commandLines(): Promise<string[]> {
  const lines: string[] = [];
  const walk = (command: Command, path: string): void => {
    lines.push(path);
    for (const child of command.commands) walk(child, `${path} ${child.name()}`);
  };
  for (const { name, load } of COMMANDS) {
    const command = new Command('nightshift').command(name);
    (await load()).define(command, () => () => Promise.resolve());
    walk(command, name);
  }
  return lines;
}

test('every operation of the API has a command, or a reason for none', () => {
  expect(Object.keys(OPERATIONS).sort()).toEqual(operationIds().sort());
});

test('every command of the table exists', async () => {
  const lines = await commandLines();
  const wanted = Object.values(OPERATIONS).filter((entry) => typeof entry === 'string');
  expect(wanted.filter((line) => !lines.includes(line))).toEqual([]);
});
