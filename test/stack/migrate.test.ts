import type {} from '../global-setup.ts';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest';
import { startStack } from '../../scripts/stack/stack.ts';

vi.setConfig({ testTimeout: 120_000 });

let url: string;

/** A database without tables that writes down how long each statement of a migration may take. */
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

test('the migrate step may take its time over a large table', async () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/migrate.ts'], {
    cwd: join(import.meta.dirname, '../..'),
    encoding: 'utf8',
    env: { ...process.env, DATABASE_URL: url, QUEUE_URL: 'none' },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  await expectTimeEnough();
});

test('so may the migrations of npm start', async () => {
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
