import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  checkRedis,
  findFreePort,
  findRedisServer,
  type RedisServer,
  startRedisServer,
} from '../src/index.ts';
import { processIdentity } from '../src/process-identity.ts';
import { inspectRedis, type RedisServerOptions } from '../src/redis.ts';

const OWNER = new URL('./fixtures/own-redis.ts', import.meta.url).pathname;

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-services-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function start(options: Partial<RedisServerOptions> = {}): Promise<RedisServer> {
  const server = await startRedisServer({ dir: newDirectory(), ...options });
  onTestFinished(() => server.stop());
  return server;
}

async function ask(url: string, ...command: [string, ...string[]]): Promise<unknown> {
  const redis = new Redis(url);
  try {
    return await redis.call(...command);
  } finally {
    redis.disconnect();
  }
}

describe('with a Redis server on this machine', () => {
  beforeEach(({ skip }) => {
    if (findRedisServer() === null) skip('no redis-server on PATH');
  });

  test('a private server answers on 127.0.0.1 until it is stopped', async () => {
    const { url, pid, stop } = await start();
    expect(new URL(url).hostname).toBe('127.0.0.1');
    expect(await ask(url, 'PING')).toBe('PONG');
    await Promise.all([stop(), stop()]);
    expect(processIdentity(pid)).toBeUndefined();
  });

  test('its data survives a restart on the same port with an append-only file', async () => {
    const dir = newDirectory();
    const first = await start({ dir, appendOnly: true });
    await ask(first.url, 'SET', 'kept', 'yes');
    await first.stop();
    const second = await start({ dir, appendOnly: true, port: first.port });
    expect(second.url).toBe(first.url);
    expect(await ask(second.url, 'GET', 'kept')).toBe('yes');
  });

  test('stop() is harmless after a kill', async () => {
    const { pid, stop } = await start();
    process.kill(pid, 'SIGKILL');
    await stop();
    expect(processIdentity(pid)).toBeUndefined();
  });

  test('it ends with its owner, even if that is killed during the start', async () => {
    const dir = newDirectory();
    const owner = spawn(process.execPath, [OWNER, dir], { stdio: 'inherit' });
    onTestFinished(() => void owner.kill('SIGKILL'));
    const pid = await vi.waitFor(
      () => {
        const log = readFileSync(join(dir, 'redis.log'), 'utf8');
        return Number(/^(\d+):M .*ready to accept connections/im.exec(log)![1]);
      },
      { timeout: 120_000, interval: 20 },
    );
    owner.kill('SIGKILL');
    await vi.waitFor(() => expect(processIdentity(pid)).toBeUndefined(), { timeout: 120_000, interval: 20 });
  });

  test('a busy port is an error with the log', async () => {
    const { port } = await start();
    await expect(start({ port })).rejects.toThrow(/did not start.*Address already in use/s);
  });

  test('a server without eviction is accepted', async () => {
    const { url } = await start();
    expect(await checkRedis(url)).toBeNull();
    expect(await inspectRedis(url)).toMatchObject({
      objection: null,
      maxmemoryPolicy: 'noeviction',
      version: expect.any(String),
    });
  });

  test.each(['allkeys-lru', 'volatile-ttl', 'allkeys-random'])(
    'one that evicts by %s is refused',
    async (policy) => {
      const { url } = await start({ settings: { 'maxmemory-policy': policy } });
      expect(await checkRedis(url)).toMatch(
        new RegExp(`maxmemory-policy ${policy}.*CONFIG SET maxmemory-policy noeviction`, 's'),
      );
    },
  );

  test('an evicting server is also refused without CONFIG, as on managed services', async () => {
    const { url } = await start({ settings: { 'maxmemory-policy': 'allkeys-lfu' } });
    await ask(url, 'ACL', 'SETUSER', 'default', '-config');
    await expect(ask(url, 'CONFIG', 'GET', 'maxmemory-policy')).rejects.toThrow(/NOPERM/);
    expect(await checkRedis(url)).toMatch(/maxmemory-policy allkeys-lfu/);
  });

  test('a server without the database of the URL is refused with its own message', async () => {
    const { url } = await start({ settings: { databases: 4 } });
    expect(await checkRedis(`${url}/3`)).toBeNull();
    expect(await checkRedis(`${url}/99`)).toMatch(
      /^The Redis of QUEUE_URL, redis:.*\/99, .*out of range.*database 0/,
    );
  });

  test('a missing password is named, and a given password is not shown', async () => {
    const { url, port } = await start({ settings: { requirepass: 'right-one' } });
    await expect(checkRedis(`redis://127.0.0.1:${port}`)).rejects.toThrow(/NOAUTH/);
    const error = await checkRedis(`redis://:wrong-one@127.0.0.1:${port}`).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(/WRONGPASS/);
    expect(inspect(error, { depth: null })).not.toContain('wrong-one');
    expect(await checkRedis(url)).toBeNull();
  });
});

test('an unreachable Redis is an error, not an objection, and names its place and the next step', async () => {
  const port = await findFreePort();
  await expect(checkRedis(`redis://127.0.0.1:${port}`)).rejects.toThrow(
    new RegExp(`redis://127.0.0.1:${port}.*ECONNREFUSED.*set QUEUE_URL to a PostgreSQL`, 's'),
  );
});

test('the error of a server that never answers TLS names it and suggests a URL without TLS', async () => {
  const silent = createServer((socket) => void socket.on('error', () => undefined).resume());
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as { port: number };
  await expect(checkRedis(`rediss://:hidden@127.0.0.1:${port}`)).rejects.toThrow(
    new RegExp(
      `^Cannot use the Redis of QUEUE_URL, rediss://127.0.0.1:${port}: (?!.*hidden).*without TLS.*redis://`,
    ),
  );
});

test.each([
  ['6.0.16', /version 6.0.16; use 6.2/],
  ['5.0.7', /version 5.0.7; use 6.2/],
])('a server of version %s is refused', async (version, expected) => {
  // The part of a server that the check uses.
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      const text = chunk.toString().toLowerCase();
      for (const [command] of text.matchAll(/\binfo\b|\bconfig\b|\bclient\b/g))
        if (command === 'info') {
          const body = `redis_version:${version}\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n`;
          socket.write(`$${body.length}\r\n${body}\r\n`);
        } else socket.write('-ERR unknown command\r\n');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  expect(await checkRedis(`redis://127.0.0.1:${port}`)).toMatch(expected);
});
