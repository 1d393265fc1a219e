import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { environment } from '../apps/api/src/config.ts';

const root = dirname(import.meta.dirname);
let clone: string;
let children: ChildProcess[];

/** A fresh minimal clone, with an npm that only records its arguments. */
beforeEach(() => {
  children = [];
  clone = mkdtempSync(join(tmpdir(), 'nightshift-bootstrap-'));
  for (const directory of ['scripts', 'fake']) mkdirSync(join(clone, directory));
  copyFileSync(join(root, 'scripts/bootstrap.mjs'), join(clone, 'scripts/bootstrap.mjs'));
  writeFileSync(join(clone, 'package-lock.json'), '{}');
  writeFileSync(
    join(clone, 'scripts/script.mjs'),
    `const [what, ...rest] = process.argv.slice(2);
     if (what === 'wait') {
       process.on('SIGTERM', () => process.exit(42));
       setInterval(() => {}, 1000);
       console.log('waiting ' + process.pid);
     } else if (what === 'die') process.kill(process.pid, 'SIGKILL');
     else {
       const { PATH: path, NODE_COMPILE_CACHE: cache } = process.env;
       console.log(JSON.stringify({ rest, node: process.version, path, cache }));
       process.exitCode = Number(what);
     }`,
  );
  fakeNpm('mkdir -p node_modules/.bin');
});

afterEach(() => {
  vi.unstubAllEnvs();
  for (const child of children) child.kill('SIGKILL');
  rmSync(clone, { recursive: true, force: true });
});

function fakeNpm(body: string): void {
  const file = join(clone, 'fake/npm');
  writeFileSync(file, `#!/bin/sh\necho "$1" >> "${clone}/npm-calls"\n${body}\n`);
  chmodSync(file, 0o755);
}

function npmCalls(): string[] {
  const file = join(clone, 'npm-calls');
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
}

interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(
  args: string[],
  node = process.execPath,
  nodeArguments: readonly string[] = [],
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(node, [...nodeArguments, join(clone, 'scripts/bootstrap.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH: [join(clone, 'fake'), process.env.PATH].join(delimiter) },
  });
  children.push(child);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'close').then(([exitCode]: number[]) => ({
    exitCode: exitCode ?? null,
    stdout,
    stderr,
  }));
  return { child, ended };
}

const bootstrap = (...args: string[]): Promise<Ended> => start(['scripts/script.mjs', ...args]).ended;

test('a fresh clone is installed once, with a message; later nothing is', async () => {
  const first = await bootstrap('0');
  expect(first).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/^Installing dependencies.*\d s\n$/),
  });
  const second = await bootstrap('0');
  expect(second).toMatchObject({ exitCode: 0, stderr: '' });
  expect(npmCalls()).toEqual(['ci']);
});

test('everything is installed, even if the environment omits development packages', async () => {
  fakeNpm(`echo "$*" > "${clone}/asked"; mkdir -p node_modules/.bin`);
  await bootstrap('0');
  expect(readFileSync(join(clone, 'asked'), 'utf8')).toContain(' --include=dev --include=optional ');
});

test('no package runs an install script', async () => {
  fakeNpm(`echo "$*" > "${clone}/asked"; mkdir -p node_modules/.bin`);
  await bootstrap('0');
  expect(readFileSync(join(clone, 'asked'), 'utf8')).toContain(' --ignore-scripts ');
});

test.each(['start', 'demo'])(
  'a NIGHTSHIFT_API_KEY that the API would refuse ends %s before anything is installed',
  async (name) => {
    copyFileSync(join(clone, 'scripts/script.mjs'), join(clone, `scripts/${name}.ts`));
    for (const key of [
      'short',
      'a key with blanks in it',
      'ns_schlüssel_des_nachtdienstes',
      'ns_key_with_a_line_break\n',
    ]) {
      expect(environment.shape.NIGHTSHIFT_API_KEY.safeParse(key).success).toBe(false);
      vi.stubEnv('NIGHTSHIFT_API_KEY', key);
      const { exitCode, stdout, stderr } = await start([`scripts/${name}.ts`, '0']).ended;
      expect([exitCode, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^NIGHTSHIFT_API_KEY must have at least 16 characters, .*\n$/);
      expect(stderr).not.toContain(key.trim());
    }
    expect([npmCalls(), existsSync(join(clone, '.data'))]).toEqual([[], false]);
  },
);

test('the start accepts the same keys as the API', () => {
  const source = readFileSync(join(import.meta.dirname, '../scripts/bootstrap.mjs'), 'utf8');
  const [, pattern = ''] = /^const API_KEY = \/(.+)\/;$/m.exec(source) ?? [];
  const lengths = ['', 'k'.repeat(15), 'k'.repeat(16), 'k'.repeat(1_000)];
  const characters = Array.from({ length: 300 }, (_, code) => `key_of_the_night${String.fromCharCode(code)}`);
  for (const key of [...lengths, ...characters])
    expect({ key, accepted: new RegExp(pattern).test(key) }).toEqual({
      key,
      accepted: environment.shape.NIGHTSHIFT_API_KEY.safeParse(key).success,
    });
});

test.each([
  ['start', ''],
  ['start', 'a_key_of_16_chars'],
  ['script', 'short'],
])('scripts/%s runs with the NIGHTSHIFT_API_KEY %j', async (name, key) => {
  copyFileSync(join(clone, 'scripts/script.mjs'), join(clone, 'scripts/start.ts'));
  vi.stubEnv('NIGHTSHIFT_API_KEY', key);
  const path = name === 'start' ? 'scripts/start.ts' : 'scripts/script.mjs';
  expect((await start([path, '0']).ended).exitCode).toBe(0);
});

test('a changed lockfile is installed again', async () => {
  await bootstrap('0');
  writeFileSync(join(clone, 'package-lock.json'), '{"changed": true}');
  await bootstrap('0');
  expect(npmCalls()).toEqual(['ci', 'ci']);
});

test('two commands at once install once', async () => {
  fakeNpm('sleep 0.5; mkdir -p node_modules/.bin');
  const ended = await Promise.all([bootstrap('0'), bootstrap('0'), bootstrap('0')]);
  expect(ended.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
  expect(npmCalls()).toEqual(['ci']);
  expect(existsSync(join(clone, '.data/install.lock'))).toBe(false);
});

/** Writes a lock as if held by the process with `identity` in the scope of pids `place`. */
function leaveLock(identity: string, place: string): string {
  const holder = join(clone, '.data/install.lock/holder');
  mkdirSync(dirname(holder), { recursive: true });
  writeFileSync(holder, `${identity}\n${place}\n`);
  return holder;
}

const here = `${hostname()} ${process.platform === 'linux' ? readlinkSync('/proc/self/ns/pid') : ''}`;

test('the lock of a killed command is taken over', async () => {
  const dead = spawn('true');
  await once(dead, 'exit');
  leaveLock(`${dead.pid}`, here);
  expect(await bootstrap('0')).toMatchObject({ exitCode: 0, stderr: expect.not.stringContaining('waiting') });
  expect(npmCalls()).toEqual(['ci']);
});

test('also if another process has its pid meanwhile', async ({ skip }) => {
  if (process.platform !== 'linux') skip('if only the pid is known');
  leaveLock(`${process.pid} 1 of-another-boot`, here);
  expect(await bootstrap('0')).toMatchObject({ exitCode: 0, stderr: expect.not.stringContaining('waiting') });
});

test('also if the pid is our own, as in the next container', async () => {
  // A living pid, without /proc.
  const sameNumber = pretend(
    `Object.defineProperty(process, 'pid', { value: ${process.pid} });
     const fs = require('node:fs');
     for (const name of ['readFileSync', 'readlinkSync']) {
       const real = fs[name];
       fs[name] = (path, ...rest) => real(String(path).startsWith('/proc/') ? '/nonexistent' : path, ...rest);
     }`,
  );
  leaveLock(`${process.pid}`, `${hostname()} `);
  const { ended } = start(['scripts/script.mjs', '0'], process.execPath, sameNumber);
  expect(await ended).toMatchObject({ exitCode: 0, stderr: expect.not.stringContaining('waiting') });
});

test('a lock from another container is respected while it is touched, and then taken over', async () => {
  const holder = leaveLock(`${process.pid} 1 of-this-boot`, 'box pid:[1]');
  const touching = setInterval(() => utimesSync(holder, new Date(), new Date()), 20);
  try {
    const hasty = pretend('const { now } = performance; performance.now = () => now.call(performance) * 5');
    const { child, ended } = start(['scripts/script.mjs', '0'], process.execPath, hasty);
    const said = vi.fn();
    child.stderr?.on('data', said);
    await vi.waitFor(() => expect(said).toHaveBeenCalled(), { timeout: 120_000 });
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    expect(npmCalls()).toEqual([]);
    clearInterval(touching);
    expect(await ended).toMatchObject({
      exitCode: 0,
      stderr: expect.stringMatching(/^Another command is installing/),
    });
    expect(npmCalls()).toEqual(['ci']);
  } finally {
    clearInterval(touching);
  }
});

test('an installing command touches its lock', async () => {
  const holder = join(clone, '.data/install.lock/holder');
  const installing = join(clone, 'installing');
  writeFileSync(installing, '');
  fakeNpm(`mkdir -p node_modules/.bin; while [ -e "${installing}" ]; do sleep 0.05; done`);
  const ended = bootstrap('0');
  await vi.waitFor(() => expect(existsSync(holder)).toBe(true), { timeout: 120_000, interval: 10 });
  const first = statSync(holder).mtimeMs;
  await vi.waitFor(() => expect(statSync(holder).mtimeMs).toBeGreaterThan(first), { timeout: 120_000 });
  rmSync(installing);
  await ended;
});

test("a failed install shows npm's output, runs nothing, and is repeated next time", async () => {
  fakeNpm('echo the registry is away >&2; exit 1');
  expect(await bootstrap('0')).toMatchObject({
    exitCode: 1,
    stdout: '',
    stderr: expect.stringMatching(/failed\n.*the registry is away.*Check the network/s),
  });
  fakeNpm('mkdir -p node_modules/.bin');
  expect(await bootstrap('0')).toMatchObject({ exitCode: 0 });
});

test.for([
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const)('%s during an install ends npm first, then the command', async ([signal, exitCode]) => {
  fakeNpm(
    `trap 'sleep 0.3; echo ended >> "${clone}/npm-calls"; exit 1' INT TERM HUP
     echo waits >> "${clone}/npm-calls"; while [ -e "${clone}" ]; do sleep 0.05; done`,
  );
  const { child, ended } = start(['scripts/script.mjs', '0']);
  await vi.waitFor(() => expect(npmCalls()).toEqual(['ci', 'waits']), { timeout: 120_000 });
  child.kill(signal);
  expect(await ended).toMatchObject({
    exitCode,
    stdout: '',
    stderr: expect.stringMatching(/interrupted\n$/),
  });
  expect(npmCalls()).toEqual(['ci', 'waits', 'ended']);
  expect(existsSync(join(clone, '.data/install.lock'))).toBe(false);
  fakeNpm('mkdir -p node_modules/.bin');
  expect(await bootstrap('0')).toMatchObject({ exitCode: 0 });
});

test("an install ends too if npm's shell is killed", async () => {
  fakeNpm(
    `trap 'echo ended >> "${clone}/npm-calls"; exit 1' TERM
     echo waits >> "${clone}/npm-calls"; while [ -e "${clone}" ]; do sleep 0.05; done`,
  );
  const shell = spawn(
    '/bin/sh',
    ['-c', `"${process.execPath}" scripts/bootstrap.mjs scripts/script.mjs 0; :`],
    {
      cwd: clone,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        ...process.env,
        npm_lifecycle_event: 'demo',
        PATH: [join(clone, 'fake'), process.env.PATH].join(delimiter),
      },
    },
  );
  const closed = once(shell.stdout, 'close');
  shell.stdout.resume();
  await vi.waitFor(() => expect(npmCalls()).toEqual(['ci', 'waits']), { timeout: 120_000 });
  shell.kill('SIGTERM');
  await closed;
  expect(npmCalls()).toEqual(['ci', 'waits', 'ended']);
});

test("a command that has installed leaves a later command's lock alone", async () => {
  const { child, ended } = start(['scripts/script.mjs', 'wait']);
  const said = vi.fn();
  child.stdout?.on('data', said);
  await vi.waitFor(() => expect(said).toHaveBeenCalled(), { timeout: 120_000 });
  mkdirSync(join(clone, '.data/install.lock'));
  child.kill('SIGTERM');
  await ended;
  expect(existsSync(join(clone, '.data/install.lock'))).toBe(true);
});

test('arguments and exit codes pass through, and the tools of node_modules come first', async () => {
  const { exitCode, stdout } = await bootstrap('3', '--flag', 'two words');
  expect(exitCode).toBe(3);
  const { rest, path } = JSON.parse(stdout) as { rest: string[]; path: string };
  expect(rest).toEqual(['--flag', 'two words']);
  expect(path.split(delimiter).slice(0, 2)).toEqual([
    dirname(process.execPath),
    join(clone, 'node_modules/.bin'),
  ]);
});

test.each([
  ['in .data', undefined, '.data/compile-cache'],
  ['in the folder of the environment', 'elsewhere', 'elsewhere'],
])("Node's compile cache is %s", async (_where, wanted, kept) => {
  vi.stubEnv('NODE_COMPILE_CACHE', wanted === undefined ? undefined : join(clone, wanted));
  await bootstrap('0');
  const { stdout } = await bootstrap('0');
  expect((JSON.parse(stdout) as { cache: string }).cache).toBe(join(clone, kept));
  expect(readdirSync(join(clone, kept))).not.toEqual([]);
});

test('a signal reaches the script, whose exit code counts', async () => {
  const { child, ended } = start(['scripts/script.mjs', 'wait']);
  const said = vi.fn();
  child.stdout?.on('data', said);
  await vi.waitFor(() => expect(said).toHaveBeenCalled(), { timeout: 120_000 });
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ exitCode: 42 });
});

test("a script of npm ends if npm's shell is killed; without npm it continues", async () => {
  await bootstrap('0');
  const { npm_lifecycle_event: _, ...env } = process.env;
  const inShell = async (more: Readonly<Record<string, string>>) => {
    // The colon keeps the shell from becoming the command itself.
    const command = `"${process.execPath}" scripts/bootstrap.mjs scripts/script.mjs wait; :`;
    const shell = spawn('/bin/sh', ['-c', command], {
      cwd: clone,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...env, ...more },
    });
    const ended = once(shell.stdout, 'close');
    const [line] = (await once(shell.stdout, 'data')) as [Buffer];
    shell.kill('SIGTERM');
    return { pid: Number(/^waiting (\d+)$/m.exec(line.toString())![1]), ended };
  };
  const plain = await inShell({});
  try {
    const ofNpm = await inShell({ npm_lifecycle_event: 'start' });
    await ofNpm.ended;
    expect(isAlive(ofNpm.pid)).toBe(false);
    expect(isAlive(plain.pid)).toBe(true);
  } finally {
    process.kill(plain.pid, 'SIGTERM');
    await plain.ended;
  }
});

test('a script killed by a signal exits with 128 and its number', async () => {
  expect(await bootstrap('die')).toMatchObject({ exitCode: 128 + 9 });
});

test('an older Node fetches Node 24 and runs the script with it', async ({ skip }) => {
  const older = findOlderNode();
  if (older === undefined) return skip('no Node older than 24 on PATH');
  fakeNpmWithNode();
  const { exitCode, stdout, stderr } = await start(['scripts/script.mjs', '0'], older).ended;
  expect({ exitCode, node: (JSON.parse(stdout) as { node: string }).node }).toEqual({
    exitCode: 0,
    node: process.version,
  });
  expect(stderr).toMatch(/Fetching Node 24/);
  expect(npmCalls()).toEqual(['install', 'ci']);
  expect((await start(['scripts/script.mjs', '0'], older).ended).stderr).toBe('');
});

test('an interrupted or broken download of Node starts again', async () => {
  const old = pretend("require('node:crypto').randomUUIDv7 = undefined");
  const command = () => start(['scripts/script.mjs', '0'], process.execPath, old).ended;
  // All processes are killed while npm unpacks.
  fakeNpmWithNode('printf half > "$bin/node"; chmod 755 "$bin/node"; kill -9 $PPID; exit 1');
  expect(await command()).toMatchObject({ exitCode: null });
  fakeNpmWithNode('printf half > "$bin/node"; chmod 755 "$bin/node"');
  expect(await command()).toMatchObject({
    exitCode: 1,
    stdout: '',
    stderr: expect.stringMatching(/The fetched Node does not run here.*Run this again/s),
  });
  fakeNpmWithNode();
  expect(await command()).toMatchObject({ exitCode: 0 });
  expect(npmCalls()).toEqual(['install', 'install', 'install', 'ci']);
  expect(readdirSync(join(clone, '.data/node'))).toEqual([expect.stringMatching(/^24[.\d]+$/)]);
});

test('a Node 24 before 24.16 fetches a newer version', async () => {
  fakeNpmWithNode();
  const old = pretend("require('node:crypto').randomUUIDv7 = undefined");
  const { exitCode, stderr } = await start(['scripts/script.mjs', '0'], process.execPath, old).ended;
  expect(exitCode).toBe(0);
  expect(stderr).toMatch(/Fetching Node 24/);
  expect(npmCalls()).toEqual(['install', 'ci']);
});

test('without a newer Node, the next step is printed and nothing runs', async () => {
  const old = pretend(
    `require('node:crypto').randomUUIDv7 = undefined;
     Object.defineProperty(process, 'platform', { value: 'darwin' })`,
  );
  const ended = await start(['scripts/script.mjs', '0'], process.execPath, old).ended;
  expect(ended).toMatchObject({
    exitCode: 1,
    stdout: '',
    stderr: expect.stringMatching(/^This is Node .* install Node 24\.16 or newer from https:\/\/nodejs\.org/),
  });
  expect(npmCalls()).toEqual([]);
});

/** A fake npm that "installs" the Node of this test, or runs `instead` on `$bin/node`. */
function fakeNpmWithNode(instead = `ln -s "${process.execPath}" "$bin/node"`): void {
  fakeNpm(
    `mkdir -p node_modules/.bin
     if [ "$1" = install ]; then
       for argument; do case "$argument" in node-*) package="\${argument%@*}" ;; esac; done
       bin="node_modules/$package/bin"; mkdir -p "$bin"; ${instead}
     fi`,
  );
}

/** Returns arguments that make Node run these statements first. */
function pretend(statements: string): string[] {
  const file = join(clone, 'fake/pretend.cjs');
  writeFileSync(file, `${statements};\nrequire('node:module').syncBuiltinESMExports();\n`);
  return ['--require', file];
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function findOlderNode(): string | undefined {
  const candidates = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin'];
  return candidates
    .map((directory) => join(directory, 'node'))
    .filter((file) => existsSync(file))
    .find(
      (file) => Number.parseInt(execFileSync(file, ['--version'], { encoding: 'utf8' }).slice(1), 10) < 24,
    );
}
