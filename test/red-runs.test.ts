import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { expect, inject, test } from 'vitest';

const root = dirname(import.meta.dirname);

/** Runs vitest on a fixture in a separate process, with the real configuration. */
function runFixture(
  fixture: string,
  databaseUrl = inject('postgresUrl'),
): { exitCode: number | null; lastLine: string | undefined } {
  const { NODE_OPTIONS: _options, VITEST: _vitest, ...environment } = process.env;
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--config', 'test/fixtures/vitest.config.ts'],
    {
      cwd: root,
      encoding: 'utf8',
      env: {
        ...environment,
        FIXTURE: fixture,
        TEST_DATABASE_URL: databaseUrl,
        NIGHTSHIFT_TEST_COUNTS: undefined,
      },
    },
  );
  return { exitCode: status, lastLine: stdout.trimEnd().split('\n').at(-1) };
}

test('a green run exits with 0, which validates the following tests', () => {
  expect(runFixture('green')).toEqual({ exitCode: 0, lastLine: '1 passed, 0 failed, 0 skipped' });
});

test('a red test makes the run exit with 1, even if it must stop its own PostgreSQL', () => {
  expect(runFixture('red', '')).toEqual({ exitCode: 1, lastLine: '1 passed, 1 failed, 1 skipped' });
});

test('a test file that does not load counts as failed', () => {
  expect(runFixture('unloadable')).toEqual({ exitCode: 1, lastLine: '0 passed, 1 failed, 0 skipped' });
});

test('a throwing hook counts as failed, although its tests are only skipped', () => {
  expect(runFixture('broken-hook')).toEqual({ exitCode: 1, lastLine: '0 passed, 1 failed, 1 skipped' });
});

test('a throwing global set-up makes the run exit with 1', () => {
  expect(runFixture('throwing-global-setup').exitCode).toBe(1);
});
