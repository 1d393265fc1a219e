import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { takeDirectory } from '../directory.ts';

let dir: string;

beforeEach(() => {
  dir = join(mkdtempSync(join(tmpdir(), 'nightshift-bench-')), 'bench');
});
afterEach(() => {
  rmSync(join(dir, '..'), { recursive: true, force: true });
});

test('only the files of a killed bench are removed', () => {
  for (const name of ['pg', 'redis', 'product', 'bench_12', 'mine'])
    mkdirSync(join(dir, name, 'inner'), { recursive: true });
  writeFileSync(join(dir, 'fsync-probe'), '');
  takeDirectory(dir)();
  expect(readdirSync(dir)).toEqual(['mine']);
});

test('a second bench is refused while one runs, and removes nothing', () => {
  const release = takeDirectory(dir);
  mkdirSync(join(dir, 'pg'));
  expect(() => takeDirectory(dir)).toThrow(
    `Another bench, process ${process.pid}, has its servers in ${dir}`,
  );
  expect(readdirSync(dir)).toContain('pg');
  release();
  takeDirectory(dir)();
  expect(readdirSync(dir)).toEqual([]);
});
