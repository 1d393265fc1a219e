import type {} from '../global-setup.ts';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, truncateSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import { findFreePort } from '../../libs/services/src/index.ts';

const ROOT = join(import.meta.dirname, '../..');
const KEY = 'ns_key_of_the_full_disk';

let database: TestDatabase;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-full-'));
  database = await openTestDatabase(inject('postgresUrl'));
});
afterEach(async () => {
  await database.close();
  await rm(dir, { recursive: true, force: true });
});

interface Logging {
  readonly child: ChildProcess;
  readonly url: string;
  /** Returns the answer of `/livez`. */
  livez(): Promise<unknown>;
}

/**
 * Starts an API or a worker with standard output in `logFile`, and waits for its answer. `blocksMax`: size at which the file is
 * full, in blocks of 512 bytes.
 */
async function start(app: 'api' | 'worker', logFile: string, blocksMax?: number): Promise<Logging> {
  const port = await findFreePort();
  const log = openSync(logFile, 'a');
  const main = join(ROOT, `apps/${app}/src/main.ts`);
  const limit = blocksMax === undefined ? '' : `trap '' XFSZ; ulimit -S -f ${blocksMax}; `;
  const child = spawn('/bin/sh', ['-c', `${limit}exec "$0" "$1"`, process.execPath, main], {
    env: {
      ...{ PATH: process.env.PATH, DATABASE_URL: database.url, DATA_DIR: dir, LOG_LEVEL: 'debug' },
      ...(app === 'api'
        ? { PORT: String(port), NIGHTSHIFT_API_KEY: KEY }
        : {
            HEALTH_PORT: String(port),
            ANTHROPIC_API_KEY: 'test-key',
            ANTHROPIC_BASE_URL: 'http://127.0.0.1:1',
          }),
    },
    stdio: ['ignore', log, 'inherit'],
  });
  closeSync(log);
  onTestFinished(() => void child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  const livez = async (): Promise<unknown> => (await fetch(`${url}/livez`)).json();
  await expect
    .poll(() => livez().catch(() => 'nothing yet'), { timeout: 30_000 })
    .toMatchObject({ status: 'ok' });
  return { child, url, livez };
}

test.for(['api', 'worker'] as const)(
  'on a full disk the %s keeps working, reports its failing log on /livez, and ends cleanly',
  async (app, { skip }) => {
    if (!existsSync('/dev/full')) skip('no /dev/full');
    const { child, url, livez } = await start(app, '/dev/full');
    await expect.poll(livez).toMatchObject({
      status: 'ok',
      degraded: [expect.stringMatching(/^The log cannot be written: ENOSPC/)],
    });
    if (app === 'api') {
      const listed = await fetch(`${url}/v1/agents`, { headers: { authorization: `Bearer ${KEY}` } });
      expect(listed.status).toBe(200);
    }
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  },
);

test('a full log drops and counts lines, and resumes when there is room again', async ({ skip }) => {
  if (spawnSync('prlimit', ['--version']).status !== 0) skip('no prlimit on PATH');
  const log = join(dir, 'api.log');
  const { child, url, livez } = await start('api', log, 64);
  // Each request logs its path.
  const path = `/${'x'.repeat(100_000)}`;
  for (let request = 0; request < 15; request++) await (await fetch(url + path)).arrayBuffer();
  expect(await livez()).toEqual({
    status: 'ok',
    degraded: [expect.stringMatching(/^The log cannot be written: EFBIG/)],
    log_lines_dropped: expect.any(Number),
  });
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } });
  const [, dropped] = /^nightshift_api_log_lines_dropped_total (\d+)$/m.exec(await metrics.text()) ?? [];
  expect(Number(dropped)).toBeGreaterThan(0);

  spawnSync('prlimit', ['--pid', String(child.pid), '--fsize=unlimited']);
  truncateSync(log);
  await expect.poll(livez).toMatchObject({ degraded: [] });
  await expect.poll(() => readFileSync(log, 'utf8')).toContain('log lines were dropped here');
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
}, 60_000);
