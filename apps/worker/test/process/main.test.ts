import type {} from '../../../../test/global-setup.ts';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_PROJECT_ID, requestDrain } from '@nightshift/db';
import { openTestDatabase } from '@nightshift/db/testing';
import { expect, inject, onTestFinished, test } from 'vitest';

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;
const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
const COMMON = { PATH, NODE_COMPILE_CACHE, ANTHROPIC_API_KEY: 'test-key' };

test('an unusable database or queue ends a worker with the message of the migrate step', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  const wrong = Object.assign(new URL(database.url), { password: 'hidden' }).href;
  const start = (env: Record<string, string>): { status: number | null; shown: string } => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN], {
      encoding: 'utf8',
      env: { ...COMMON, DATA_DIR: tmpdir(), ...env },
    });
    return { status, shown: stdout + stderr };
  };
  const refusal = (sentence: RegExp): unknown => ({
    status: 1,
    shown: expect.stringMatching(new RegExp(`^[^\\n]*${sentence.source}[^\\n]*\\n$`)) as unknown,
  });
  try {
    expect(start({ DATABASE_URL: wrong })).toEqual(refusal(/Correct the user or the password/));
    const bad = start({ DATABASE_URL: database.url, QUEUE_URL: 'loft://:hidden@pigeon' });
    expect(bad).toEqual(refusal(/QUEUE_URL is not usable/));
    await database.pool.query('delete from kysely_migration');
    expect(start({ DATABASE_URL: database.url })).toEqual(refusal(/node scripts\/migrate\.ts/));
  } finally {
    await database.close();
  }
});

test('an unreadable body directory ends a worker with one line', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-worker-'));
  try {
    await writeFile(join(dir, 'bodies'), '');
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN], {
      encoding: 'utf8',
      env: { ...COMMON, DATA_DIR: dir, DATABASE_URL: database.url },
    });
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^\{.*"msg":"cannot start: ENOTDIR[^\n]*\n$/);
  } finally {
    await database.close();
    await rm(dir, { recursive: true, force: true });
  }
});

test('a worker that stops without its database logs the failure and exits', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-worker-'));
  const worker = spawn(process.execPath, [MAIN], {
    env: { ...COMMON, DATA_DIR: dir, DATABASE_URL: database.url },
  });
  try {
    let shown = '';
    for (const stream of [worker.stdout, worker.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (shown += text));
    await expect.poll(() => shown).toContain('worker is at work');
    await database.close();
    const ended = once(worker, 'close');
    worker.kill('SIGTERM');
    expect(await ended).toEqual([1, null]);
    const lines = shown.trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(
      expect.arrayContaining(['the stop failed; leases lapse by themselves', 'worker has stopped']),
    );
  } finally {
    worker.kill('SIGKILL');
    await database.close().catch(() => undefined);
    await rm(dir, { recursive: true, force: true });
  }
});

test(
  'a drained worker takes no new work and ends with code 0, and the stack can tell',
  { timeout: 60_000 },
  async () => {
    const database = await openTestDatabase(inject('postgresUrl'));
    const dir = await mkdtemp(join(tmpdir(), 'nightshift-worker-'));
    const worker = spawn(process.execPath, [MAIN], {
      env: { ...COMMON, DATA_DIR: dir, DATABASE_URL: database.url },
    });
    onTestFinished(async () => {
      worker.kill('SIGKILL');
      await database.close();
      await rm(dir, { recursive: true, force: true });
    });
    let shown = '';
    worker.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text));
    await expect.poll(() => shown, { timeout: 20_000 }).toContain('worker is at work');
    const ended = once(worker, 'close');
    const rows = async () => (await database.pool.query<{ id: string }>('select id from worker')).rows;
    await expect.poll(rows).toHaveLength(1);
    await requestDrain(database.db, DEFAULT_PROJECT_ID, (await rows())[0]?.id ?? '');
    // Its next heartbeat is at most eleven seconds away.
    expect(await ended).toEqual([0, null]);
    expect(shown).toContain('"msg":"worker is drained"');
    expect(shown).toContain('"msg":"worker has stopped"');
    expect(await rows()).toEqual([]);
  },
);
