import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { Server, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { findFreePort, startEmbeddedPostgres } from '../../libs/services/src/index.ts';
import { startStack } from '../../scripts/stack/stack.ts';

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

test('an external server with fewer connections is refused before any write, with the settings to change', async () => {
  const postgres = await startEmbeddedPostgres({
    dataDir: join(dir, 'theirs'),
    durable: false,
    settings: { max_connections: 50 },
  });
  try {
    const starting = startStack({ ...PARTS, dataDir: dir, workers: 20, databaseUrl: postgres.url });
    await expect(starting).rejects.toThrow(
      /^WORKERS=20 may take 225 connections, and the PostgreSQL of DATABASE_URL allows 47\. Raise its max_connections, or set WORKERS or DATABASE_POOL_MAX/,
    );
  } finally {
    await postgres.stop();
  }
});

test('an API whose port is taken during its start uses another one, and never reports the URL of another program', async () => {
  const port = await findFreePort();
  const stranger = createServer((_, response) => response.end());
  const close = Server.prototype.close;
  const takePort = (): Promise<void> => {
    const spy = vi.spyOn(Server.prototype, 'close').mockImplementation(function (this: Server, done) {
      const isProbe = (this.address() as AddressInfo | null)?.port === port;
      return close.call(this, () => {
        if (!isProbe) return done?.();
        spy.mockRestore();
        stranger.listen(port, '127.0.0.1', () => done?.());
      });
    });
    return Promise.resolve();
  };
  const stack = await startStack({ ...PARTS, port, dataDir: dir, workers: 0, look: takePort });
  try {
    expect(stranger.listening).toBe(true);
    expect(new URL(stack.apiUrl).port).not.toBe(String(port));
    const answer = await fetch(`${stack.apiUrl}/v1/agents/`, {
      headers: { authorization: `Bearer ${stack.apiKey}` },
    });
    expect(await answer.json()).toEqual([]);
  } finally {
    await stack.stop();
    stranger.closeAllConnections();
    stranger.close();
    await once(stranger, 'close');
  }
});
