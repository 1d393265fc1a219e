import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DirectoryInUseError, holdDirectory } from '../../libs/services/src/index.ts';
import { emptyDataDirectory } from '../../scripts/stack/data-directory.ts';

let dir: string;

/** What a machine has there that began with an old Node and has run everything. */
const FOREIGN = ['node', 'install.lock', 'bench', 'notes.txt'];
const OWN = ['pg', 'logs', 'simulator', 'demo', 'worker-1', 'worker-12', 'api-key'];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-data-'));
  for (const name of [...FOREIGN, ...OWN]) {
    if (name.includes('.txt') || name === 'api-key') writeFileSync(join(dir, name), 'text');
    else mkdirSync(join(dir, name, 'inner'), { recursive: true });
  }
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

test('what earlier starts have left is removed; the fetched Node and what others keep there stay', () => {
  emptyDataDirectory(dir);
  expect(readdirSync(dir).sort()).toEqual([...FOREIGN].sort());
});

test('the data of a running service is left alone, all of it, and its process is named', () => {
  const release = holdDirectory(join(dir, 'pg'));
  expect(() => emptyDataDirectory(dir)).toThrow(DirectoryInUseError);
  expect(() => emptyDataDirectory(dir)).toThrow(new RegExp(`in use by process ${process.pid}`));
  expect(readdirSync(dir).sort()).toEqual([...FOREIGN, ...OWN].sort());
  release();
});

test('a directory that is not there yet is empty already', () => {
  expect(() => emptyDataDirectory(join(dir, 'none'))).not.toThrow();
});
