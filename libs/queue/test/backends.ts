import { randomUUID } from 'node:crypto';
import { createPostgresBackend, Queue, withBackend } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { inject } from 'vitest';
import { prepareQueue } from '../src/index.ts';
import { hasRedis, startRedis } from './redis-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string;
  }
}

/** A store to carry signals, as the tests need to see it. */
export interface TestBackend {
  /** The queue URL, through another port if one is given. */
  url(port?: number): string;
  readonly port: number;
  /** What lies in the queue, unparsed. */
  stored(prefix: string, queue: 'control' | 'work'): Promise<unknown[]>;
  /** Puts any payload into the queue, as a stranger with access to the store could. */
  forge(prefix: string, queue: 'control' | 'work', payload: unknown): Promise<void>;
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
    async stored(prefix, queue) {
      const ids = (await client.lrange(`${prefix}:${queue}:wait`, 0, -1)).reverse();
      const payloads = await Promise.all(ids.map((id) => client.hget(`${prefix}:${queue}:${id}`, 'data')));
      return payloads.map((payload): unknown => JSON.parse(payload ?? 'null'));
    },
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
  await prepareQueue(database.url);
  const port = Number(new URL(database.url).port || 5432);
  const client = await connectQuietly(database.url);
  return {
    port,
    url(through = port) {
      const url = new URL(database.url);
      url.port = String(through);
      return url.href;
    },
    async stored(prefix, queue) {
      const { rows } = await client.query<{ data: unknown }>(
        "select data from bullmq.job where queue = $1 and state = 'waiting' order by seq",
        [`${prefix}-${queue}`],
      );
      return rows.map((row) => row.data);
    },
    async forge(prefix, name, payload) {
      const postgres = withBackend(createPostgresBackend);
      const queue = new postgres.Queue(`${prefix}-${name}`, {
        connection: { connectionString: database.url, max: 1 },
      });
      await queue.add('forged', payload);
      await queue.close();
    },
    async close() {
      await client.end();
      await database.drop();
    },
  };
}

/** An empty database of the test's own. */
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
