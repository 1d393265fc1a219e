import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { expect, inject, test } from 'vitest';

const root = dirname(import.meta.dirname);

/** Runs vitest in a process of its own, with the real configuration, over one fixture. */
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

test('a green run exits 0, so that the red ones below prove something', () => {
  expect(runFixture('green')).toEqual({ exitCode: 0, lastLine: '1 passed, 0 failed, 0 skipped' });
});

test('a red test makes the run exit 1, also when it has a PostgreSQL of its own to stop', () => {
  expect(runFixture('red', '')).toEqual({ exitCode: 1, lastLine: '1 passed, 1 failed, 1 skipped' });
});

test('a test file that does not load counts as failed', () => {
  expect(runFixture('unloadable')).toEqual({ exitCode: 1, lastLine: '0 passed, 1 failed, 0 skipped' });
});

test('a hook that throws counts as failed, although its tests are only skipped', () => {
  expect(runFixture('broken-hook')).toEqual({ exitCode: 1, lastLine: '0 passed, 1 failed, 1 skipped' });
});

test('a global set-up that throws makes the run exit 1', () => {
  expect(runFixture('throwing-global-setup').exitCode).toBe(1);
});
