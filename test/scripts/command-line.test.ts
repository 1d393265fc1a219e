import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { given } from '../../scripts/command-line.ts';
import { startProofServer } from '../../proof/server.ts';

const root = join(import.meta.dirname, '../..');

function run(script: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [`scripts/${script}.ts`, ...args], {
    cwd: root,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

const commands = [
  'audit',
  'chaos',
  'demo',
  'dump-schema',
  'figures',
  'gen-docs',
  'killpoints',
  'migrate',
  'rotate-secrets',
  'sabotage',
  'simulate',
  'start',
];

test.each(commands)('%s prints its purpose', (script) => {
  const { status, stdout, stderr } = run(script, '--help');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(new RegExp(`^npm (run )?${script}( -- \\[flags\\])?\n.+\\.\nTakes .+\\.\n`));
});

test.each([
  ['', undefined],
  ['.data', '.data'],
  [undefined, undefined],
])('a variable that is %j is read as %j', (value, read) => {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv('DATA_DIR', value);
  expect(given('DATA_DIR')).toBe(read);
});

test('an unknown flag is refused with the usage', () => {
  const { stdout } = run('sabotage', '--help');
  expect(run('sabotage', '--frobnicate')).toEqual({
    status: 2,
    stdout: '',
    stderr: `Unknown option '--frobnicate'\n\n${stdout}`,
  });
});

test('a command without flags refuses a flag', () => {
  const { status, stdout, stderr } = run('migrate', '--check');
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toMatch(/^Unknown option '--check'\n\nnpm run /);
});

test('the bench answers without its packages', () => {
  const isInstalled = existsSync(join(root, 'bench/node_modules'));
  expect(run('bench', '--help')).toMatchObject({ status: 0, stderr: '' });
  expect(run('bench', '--frobnicate')).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^Unknown option '--frobnicate'\n\nnpm run bench/),
  });
  expect(existsSync(join(root, 'bench/node_modules'))).toBe(isInstalled);
});

test.each([
  ['chaos', '--queue', 'kafka', "--queue must be one of redis, postgres, none, not 'kafka'."],
  ['chaos', '--minutes', 'soon', "--minutes must be a number above 0, not 'soon'."],
  ['chaos', '--workers', '1', '--workers must be at least 2: the last working worker is never struck.'],
  ['simulate', '--seeds', '1.5', "--seeds must be a whole number from 1 on, not '1.5'."],
  ['sabotage', '--only', 'zzz', "No mutant has 'zzz' in its name. There are: "],
])('%s %s %s is refused', (script, flag, value, reason) => {
  const { status, stdout, stderr } = run(script, flag, value);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr.startsWith(reason)).toBe(true);
});

test('an unusable database is reported in one line', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/audit.ts'], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, DATABASE_URL: 'postgres://127.0.0.1:1/none' },
  });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^Cannot use the PostgreSQL of DATABASE_URL.*\n$/);
});

test('the next proof removes the files of a killed one, and keeps files that may be in use', async () => {
  const data = join(root, '.data');
  mkdirSync(data, { recursive: true });
  const [stale, fresh] = ['stale', 'fresh'].map((name) => {
    const directory = mkdtempSync(join(data, `proof-${name}-`));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  });
  utimesSync(stale!, 0, 0);
  const server = await startProofServer();
  await server.stop();
  expect({ stale: existsSync(stale!), fresh: existsSync(fresh!) }).toEqual({ stale: false, fresh: true });
});
