import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateClient } from '../../scripts/client/generate-client.ts';

const root = join(import.meta.dirname, '../..');
const committed = join(root, 'libs/client/src/generated');

// Below the repository, so that the compiler finds the types of Node.
let dir: string;
let generated: string;
beforeAll(async () => {
  mkdirSync(join(root, '.data'), { recursive: true });
  dir = mkdtempSync(join(root, '.data/generated-'));
  generated = join(dir, 'src');
  await generateClient(generated);
});
afterAll(() => rmSync(dir, { recursive: true }));

const namesOf = (directory: string): string[] => globSync('**/*.ts', { cwd: directory }).sort();

test('the generated sources are those of openapi.json: if not, `npm run gen-client` writes them', () => {
  expect(namesOf(committed)).toEqual(namesOf(generated));
  for (const name of namesOf(committed)) {
    const [is, should] = [committed, generated].map((directory) =>
      readFileSync(join(directory, name), 'utf8'),
    );
    expect(is === should, `${name} differs`).toBe(true);
  }
});

test('the generated sources have no type error behind their @ts-nocheck', () => {
  for (const name of namesOf(generated)) {
    const path = join(generated, name);
    const text = readFileSync(path, 'utf8');
    expect(text).toMatch(/^\/\/ @ts-nocheck\n/);
    writeFileSync(path, text.replace('// @ts-nocheck\n', ''));
  }
  const config = join(dir, 'tsconfig.json');
  writeFileSync(
    config,
    JSON.stringify({ extends: '../../libs/client/generated.tsconfig.json', include: ['src'] }),
  );
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'node_modules/.bin/tsc'), '-p', config]);
  expect({ status, stdout: stdout.toString() }).toEqual({ status: 0, stdout: '' });
});
