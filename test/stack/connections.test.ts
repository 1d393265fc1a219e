import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startEmbeddedPostgres } from '../../libs/services/src/index.ts';
import { startStack } from '../../scripts/stack/stack.ts';

vi.setConfig({ testTimeout: 120_000 });

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-connections-'));
});
afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

const PARTS = { port: 0, toolsDir: '', queueUrl: 'none' };

test('the embedded server allows as many connections as the workers may take', async () => {
  const stack = await startStack({
    ...PARTS,
    dataDir: dir,
    workers: 1,
    workerEnv: { DATABASE_POOL_MAX: '300' },
  });
  try {
    const { rows } = await stack.pool.query<{ max_connections: string }>('show max_connections');
    expect(Number(rows[0]?.max_connections)).toBeGreaterThan(300);
  } finally {
    await stack.stop();
  }
});

test('a server of the own that allows fewer is refused before anything is written, with what to set', async () => {
  const postgres = await startEmbeddedPostgres({
    dataDir: join(dir, 'theirs'),
    durable: false,
    settings: { max_connections: 50 },
  });
  try {
    const starting = startStack({ ...PARTS, dataDir: dir, workers: 20, databaseUrl: postgres.url });
    await expect(starting).rejects.toThrow(
      /^WORKERS=20 may take 215 connections, and the PostgreSQL of DATABASE_URL allows 47\. Raise its max_connections, or set WORKERS or DATABASE_POOL_MAX/,
    );
  } finally {
    await postgres.stop();
  }
});
