import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FOLDERS, strykerConfig, testsOf } from '../../proof/mutation/config.ts';
import { copyTree } from '../../proof/mutation/tree.ts';

const root = join(import.meta.dirname, '../..');

test.each(FOLDERS)('%s and its tests exist', (folder) => {
  expect(existsSync(join(root, folder))).toBe(true);
  expect(existsSync(join(root, testsOf(folder) ?? 'none'))).toBe(true);
  expect(testsOf(`${folder}/some.ts:10-20`)).toBe(testsOf(folder));
});

test('a target is a folder, a file, or a range of lines of a file', () => {
  const targets = ['libs/agent-core/src/money', 'libs/agent-core/src/decide/breaker.ts:3-9'];
  expect(strykerConfig(targets, 'report')).toMatchObject({
    mutate: ['libs/agent-core/src/money/**/*.ts', 'libs/agent-core/src/decide/breaker.ts:3-9'],
  });
  expect(testsOf('apps/api/src')).toBeUndefined();
});

test('the copy of the repository links its own packages to the copy, and others to their place', () => {
  const place = realpathSync(mkdtempSync(join(tmpdir(), 'nightshift-test-')));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  const from = join(place, 'from');
  const files = [
    'libs/db/src/a.ts',
    'apps/api/src/b.ts',
    'node_modules/pg/index.js',
    '.data/c',
    'vitest.config.ts',
  ];
  for (const file of files) {
    mkdirSync(dirname(join(from, file)), { recursive: true });
    writeFileSync(join(from, file), file);
  }
  mkdirSync(join(from, 'node_modules/@nightshift'));
  symlinkSync(join(from, 'libs/db'), join(from, 'node_modules/@nightshift/db'), 'junction');
  const tree = join(from, '.data', 'tree');
  copyTree(from, tree);
  expect(existsSync(join(tree, '.data'))).toBe(false);
  expect(readFileSync(join(tree, 'vitest.config.ts'), 'utf8')).toBe('vitest.config.ts');
  expect(realpathSync(join(tree, 'node_modules/@nightshift/db'))).toBe(join(tree, 'libs/db'));
  expect(realpathSync(join(tree, 'node_modules/pg'))).toBe(join(from, 'node_modules/pg'));
});
