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
import { describe, expect, onTestFinished, test } from 'vitest';
import { FOLDERS, strykerConfig, testsOf } from '../../proof/mutation/config.ts';
import { scoreTable, survivorsOf } from '../../proof/mutation/report.ts';
import { copyTree } from '../../proof/mutation/tree.ts';

const root = join(import.meta.dirname, '../..');

test.each(FOLDERS)('%s is there, and so are the tests that its mutants are shown to', (folder) => {
  expect(existsSync(join(root, folder))).toBe(true);
  expect(existsSync(join(root, testsOf(folder) ?? 'none'))).toBe(true);
  expect(testsOf(`${folder}/some.ts:10-20`)).toBe(testsOf(folder));
});

test('a folder is changed with all its files, a file alone or in a range of lines', () => {
  const targets = ['libs/agent-core/src/money', 'libs/agent-core/src/decide/breaker.ts:3-9'];
  expect(strykerConfig(targets, 'report')).toMatchObject({
    mutate: ['libs/agent-core/src/money/**/*.ts', 'libs/agent-core/src/decide/breaker.ts:3-9'],
  });
  expect(testsOf('apps/api/src')).toBeUndefined();
});

test('the copy of the repository sees its own packages, and those of others where they are', () => {
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

describe('a report', () => {
  const mutant = (status: string, from: readonly [number, number], to: readonly [number, number]) => ({
    mutatorName: 'ConditionalExpression',
    replacement: 'true',
    status,
    location: {
      start: { line: from[0], column: from[1] },
      end: { line: to[0], column: to[1] },
    },
  });
  const report = {
    files: {
      'a.ts': {
        source: 'if (x > 1)\n  y(\n    2);\n',
        mutants: [
          mutant('Killed', [1, 5], [1, 10]),
          mutant('Survived', [1, 5], [1, 10]),
          mutant('NoCoverage', [2, 3], [3, 7]),
          mutant('Timeout', [1, 5], [1, 10]),
          mutant('RuntimeError', [1, 5], [1, 10]),
        ],
      },
      'empty.ts': { source: '', mutants: [] },
    },
  };

  test('names each mutant that survived by its place and its change', () => {
    expect(survivorsOf(report)).toEqual([
      'a.ts:1:5  x > 1  ->  true',
      'a.ts:2:3  y( 2)  ->  true (no test reaches it)',
    ]);
  });

  test('counts a mutant without a test that reaches it as missed, and a broken one not at all', () => {
    expect(scoreTable(report).split('\n')).toEqual([
      expect.stringMatching(/^a\.ts +2 of +4 +50\.0 %$/),
      expect.stringMatching(/^together +2 of +4 +50\.0 %$/),
    ]);
  });
});
