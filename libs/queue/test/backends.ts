import { randomUUID } from 'node:crypto';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { inject } from 'vitest';
import { queueOf, type QueueName, type Signal } from '../src/index.ts';
import { eventually } from './eventually.ts';
import { hasRedis, startRedis } from './redis-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string;
  }
}

/** A store of signals with access for tests. */
export interface TestBackend {
  /** The queue URL, optionally through another port. */
  url(port?: number): string;
  readonly port: number;
  /** Starts to record; the returned function reads the raw payloads that no listener has taken. */
  watch(prefix: string): Promise<(queue: QueueName) => Promise<unknown[]>>;
  /** Sends any payload, as another program with access to the store could. */
  forge(prefix: string, queue: QueueName, payload: unknown): Promise<void>;
  close(): Promise<void>;
}

export const backendStarters: {
  name: 'redis' | 'postgres';
  missing: string | undefined;
  start: () => Promise<TestBackend>;
}[] = [
  {
    name: 'redis',
    missing: hasRedis ? undefined : 'redis-server is not on the PATH',
    start: startRedisBackend,
  },
  { name: 'postgres', missing: undefined, start: startPostgresBackend },
];

async function startRedisBackend(): Promise<TestBackend> {
  const server = await startRedis();
  const client = new Redis({ port: server.port, host: '127.0.0.1' });
  return {
    port: server.port,
    url: (port = server.port) => `redis://127.0.0.1:${port}`,
    watch: (prefix) =>
      Promise.resolve(async (queue) => {
        const ids = (await client.lrange(`${prefix}:${queue}:wait`, 0, -1)).reverse();
        const payloads = await Promise.all(ids.map((id) => client.hget(`${prefix}:${queue}:${id}`, 'data')));
        return payloads.map((payload): unknown => JSON.parse(payload ?? 'null'));
      }),
    async forge(prefix, name, payload) {
      const queue = new Queue(name, { connection: client, prefix });
      await queue.add('forged', payload);
      await queue.close();
    },
    async close() {
      client.disconnect();
      await server.close();
    },
  };
}

async function startPostgresBackend(): Promise<TestBackend> {
  const database = await createDatabase();
  const port = Number(new URL(database.url).port || 5432);
  const client = await connectQuietly(database.url);
  const spies: pg.Client[] = [];
  return {
    port,
    url(through = port) {
      const url = new URL(database.url);
      url.port = String(through);
      return url.href;
    },
    async watch(prefix) {
      const heard: unknown[] = [];
      const spy = await listenRaw(database.url, prefix, (payload) => heard.push(JSON.parse(payload)));
      spies.push(spy);
      return async (queue) => {
        const before = heard.length;
        await client.query('select pg_notify($1, $2)', [prefix, 'null']);
        await eventually(() => heard.slice(before)).toContain(null);
        return heard.filter((signal) => signal !== null && queueOf((signal as Signal).kind) === queue);
      };
    },
    async forge(prefix, _queue, payload) {
      await client.query('select pg_notify($1, $2)', [prefix, JSON.stringify(payload)]);
    },
    async close() {
      for (const spy of spies) await spy.end();
      await client.end();
      await database.drop();
    },
  };
}

/** Listens to every payload of a channel except the probes of listeners. */
export async function listenRaw(
  url: string,
  channel: string,
  hear: (payload: string) => void,
): Promise<pg.Client> {
  const client = await connectQuietly(url);
  client.on('notification', ({ payload = '' }) => {
    if (payload !== '') hear(payload);
  });
  await client.query(`listen ${client.escapeIdentifier(channel)}`);
  return client;
}

/** Creates an empty database for a test. */
export async function createDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `queue_${randomUUID().replaceAll('-', '')}`;
  const admin = await connectQuietly(inject('postgresUrl'));
  await admin.query(`create database ${name}`);
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async drop() {
      await admin.query(`drop database if exists ${name} with (force)`);
      await admin.end();
    },
  };
}

export async function connectQuietly(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}
