import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { startProcess } from '../../scripts/stack/processes.ts';
import { lives } from './house.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-process-'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(dir, { recursive: true, force: true });
});

const LINES = 3_000;

/** Writes a program that prints more than pipes hold, on both outputs, and ends when everything was read. */
async function talker(): Promise<string> {
  const file = join(dir, 'talker.mjs');
  await writeFile(
    file,
    `for (let line = 0; line < ${LINES}; line++) {
       console.log('out ' + line + ' '.repeat(200));
       console.error('err ' + line + ' '.repeat(200));
     }`,
  );
  return relative(join(import.meta.dirname, '../..'), file);
}

test('a log holds both outputs of its process', async () => {
  const log = join(dir, 'talker.log');
  const talking = startProcess('talker', await talker(), {}, log);
  expect(await talking.ended).toBe(0);
  const count = (what: RegExp): number => readFileSync(log, 'utf8').match(what)?.length ?? 0;
  await expect.poll(() => count(/out \d+ {200}/g)).toBe(LINES);
  await expect.poll(() => count(/\n/g)).toBe(2 * LINES);
});

test('a log and its directory are readable by their owner only', async () => {
  const log = join(dir, 'logs', 'talker.log');
  await startProcess('talker', await talker(), {}, log).failure;
  expect([log, dirname(log)].map((path) => statSync(path).mode & 0o777)).toEqual([0o600, 0o700]);
});

test('an unwritable log is reported once, and disturbs neither the process nor its reader', async ({
  skip,
}) => {
  if (!existsSync('/dev/full')) return skip('no /dev/full');
  const said = vi.spyOn(console, 'error').mockReturnValue();
  const talking = startProcess('talker', await talker(), {}, '/dev/full');
  let heard = 0;
  talking.onLine(() => (heard += 1));
  expect(await talking.ended).toBe(0);
  await talking.failure;
  expect(heard).toBe(LINES);
  expect(said.mock.calls).toEqual([
    [
      expect.stringMatching(
        /^The log of talker, \/dev\/full, cannot be written: ENOSPC.*\. talker goes on; lines may be lost/,
      ),
    ],
  ]);
});

/** Writes a program that ends only with its parent. */
async function sleeper(): Promise<string> {
  const file = join(dir, 'sleeper.mjs');
  await writeFile(
    file,
    `process.stdin.on('end', () => process.exit()).resume(); process.on('SIGTERM', () => {});`,
  );
  return relative(join(import.meta.dirname, '../..'), file);
}

test('a frozen process stops at once, and a stopping process is not frozen', async () => {
  const sleeping = startProcess('sleeper', await sleeper(), {}, join(dir, 'sleeper.log'));
  expect(sleeping.freeze()).toBe(true);
  sleeping.thaw();
  expect(sleeping.freeze()).toBe(true);
  const stopped = sleeping.stop(600_000);
  expect(sleeping.freeze()).toBe(false);
  await stopped;
  expect(sleeping.endedBy()).toBe('SIGKILL');
  expect(sleeping.freeze()).toBe(false);
});

test('a frozen process still ends with its parent', async () => {
  const parent = join(dir, 'parent.mjs');
  await writeFile(
    parent,
    `import { startProcess } from '${join(import.meta.dirname, '../../scripts/stack/processes.ts')}';
     const sleeping = startProcess('sleeper', '${await sleeper()}', {}, '${join(dir, 'sleeper.log')}');
     sleeping.freeze();
     console.log(sleeping.pid);
     throw new Error('a bug');`,
  );
  const { status, stdout } = spawnSync(process.execPath, [parent], { encoding: 'utf8' });
  expect(status).toBe(1);
  await expect.poll(() => lives(Number(stdout))).toBe(false);
});

test('an unstartable process reports the reason', async () => {
  const node = process.execPath;
  onTestFinished(() => void (process.execPath = node));
  process.execPath = join(dir, 'node');
  const none = startProcess('worker-1', 'apps/worker/src/main.ts', {}, join(dir, 'worker-1.log'));
  await expect(none.firstLine(() => undefined)).rejects.toThrow(
    /^worker-1 ended \(spawn .*node ENOENT\) before it was ready\nIts log: .*worker-1\.log$/,
  );
  expect(none.endedBy()).toMatch(/ENOENT/);
  expect(none.alive()).toBe(false);
});
