import type {} from '../global-setup.ts';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import { findFreePort, findRedisServer, startRedisServer } from '../../libs/services/src/index.ts';
import { startStack } from '../../scripts/stack/stack.ts';

let url: string;

/** A database without tables that records the statement timeout of each migration. */
beforeEach(async () => {
  const name = `t_${randomBytes(8).toString('hex')}`;
  await ask(inject('postgresUrl'), `create database ${name}`);
  url = Object.assign(new URL(inject('postgresUrl')), { pathname: name }).href;
  await ask(
    url,
    `create schema watched;
     create table watched.limits (statement_timeout text);
     create function watched.note() returns event_trigger language plpgsql as
       $$ begin insert into watched.limits values (current_setting('statement_timeout')); end $$;
     create event trigger note on ddl_command_end when tag in ('CREATE TABLE') execute function watched.note()`,
  );
});
afterEach(async () => {
  await ask(inject('postgresUrl'), `drop database ${new URL(url).pathname.slice(1)} with (force)`);
});

async function ask(place: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: place });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

async function expectTimeEnough(): Promise<void> {
  expect(await ask(url, 'select distinct statement_timeout from watched.limits')).toEqual([
    { statement_timeout: '1d' },
  ]);
}

function migrate(
  databaseUrl: string,
  queueUrl: string,
  ...args: string[]
): { status: number | null; stderr: string } {
  return spawnSync(process.execPath, ['scripts/migrate.ts', ...args], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { ...process.env, DATABASE_URL: databaseUrl, QUEUE_URL: queueUrl },
  });
}

test('the migrate step has no statement timeout, for large tables', async () => {
  const { status, stderr } = migrate(url, 'none');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  await expectTimeEnough();
});

test.each([
  ['--help', 0],
  ['--check', 2],
  ['now', 2],
])('the migrate step with %s changes nothing', async (argument, status) => {
  expect(migrate(url, 'none', argument)).toMatchObject({ status });
  expect(await ask(url, 'select * from watched.limits')).toEqual([]);
});

test('the migrations of npm start have none either', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'nightshift-migrate-'));
  try {
    const stack = await startStack({
      dataDir,
      workers: 0,
      port: 0,
      toolsDir: '',
      databaseUrl: url,
      queueUrl: 'none',
    });
    await stack.stop();
    await expectTimeEnough();
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test('an unusable queue is reported before the database is changed', async ({ skip }) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'nightshift-migrate-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const expectRefused = async (queueUrl: string, reason: RegExp): Promise<void> => {
    const { status, stderr } = migrate(url, queueUrl);
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringMatching(reason) });
    const parts = { dataDir, workers: 0, port: 0, toolsDir: '', databaseUrl: url, queueUrl };
    await expect(startStack(parts)).rejects.toThrow(reason);
    expect(await ask(url, 'select * from watched.limits')).toEqual([]);
  };
  await expectRefused('rediss//typo', /^QUEUE_URL is not usable: give redis:/);
  await expectRefused(
    `postgres://localhost:${await findFreePort()}/db`,
    /^Cannot use the PostgreSQL of QUEUE_URL .*ECONNREFUSED/,
  );
  if (findRedisServer() === null) skip('no redis-server on PATH');
  const redis = await startRedisServer({
    dir: join(dataDir, 'redis'),
    settings: { 'maxmemory-policy': 'allkeys-lru' },
  });
  onTestFinished(() => redis.stop());
  await expectRefused(redis.url, /has maxmemory-policy allkeys-lru/);
});

test('an unusable migrate step reports the next step in a sentence without a password', async ({ skip }) => {
  expect(migrate('', 'none')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^Set DATABASE_URL .*\n$/),
  });
  const port = await findFreePort();
  expect(migrate(`postgres://u:hidden@localhost:${port}/db`, 'none')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^Cannot use the PostgreSQL of DATABASE_URL, .*Start that server.*\n$/),
  });
  if (findRedisServer() === null) skip('no redis-server on PATH');
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-migrate-'));
  const redis = await startRedisServer({ dir, settings: { requirepass: 'right-one' } });
  try {
    const refused = migrate(url, `redis://:wrong-one@127.0.0.1:${redis.port}`);
    expect(refused).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^Cannot use the Redis of QUEUE_URL, .*WRONGPASS.*correct the URL.*\n$/),
    });
    expect(refused.stderr).not.toContain('wrong-one');
  } finally {
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  }
});
