import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SCRIPT = join(import.meta.dirname, '../../scripts/gen-docs.ts');

function genDocs(...options: readonly string[]) {
  return spawnSync(process.execPath, [SCRIPT, ...options], { encoding: 'utf8' });
}

test('gen-docs --check succeeds while the committed pages are up to date, and writes nothing', () => {
  const { status, stdout } = genDocs('--check');
  expect(stdout).toBe('docs/reference is up to date.\n');
  expect(status).toBe(0);
});

test.each([['--chekc'], ['--check', 'more']])('gen-docs %s is refused with its usage', (...options) => {
  const { status, stderr } = genDocs(...options);
  expect(stderr).toContain('Usage: npm run gen-docs [-- --check]');
  expect(status).toBe(2);
});
