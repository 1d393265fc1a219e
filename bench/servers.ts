/**
 * Starts the bench's servers: an embedded PostgreSQL with fsync on, and a Redis where this machine has one.
 */
import { Redis } from 'ioredis';
import pg from 'pg';
import { findRedisServer, startEmbeddedPostgres, startRedisServer } from '../libs/services/src/index.ts';
import { removeDirectory } from './directory.ts';
import { stoppedAtEnd } from './ending.ts';

/** The measured server settings. `stock`: PostgreSQL's defaults. */
export const SERVER_SETTINGS = {
  stock: {},
  tuned: {
    shared_buffers: '1GB',
    max_wal_size: '8GB',
    checkpoint_timeout: '15min',
    random_page_cost: 1.1,
    effective_cache_size: '8GB',
    jit: 'off',
  },
} as const satisfies Record<string, Record<string, string | number>>;

export type ServerName = keyof typeof SERVER_SETTINGS;

export interface BenchServer {
  readonly url: string;
  readonly pid: number;
  readonly version: string;
  /** Connection to the maintenance database. */
  readonly admin: pg.Client;
  /** Creates a database and returns its URL. */
  createDatabase(name: string): Promise<string>;
  dropDatabase(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a server on an empty data directory. */
export async function startServer(dir: string, name: ServerName): Promise<BenchServer> {
  removeDirectory(dir);
  const server = await startEmbeddedPostgres({
    dataDir: dir,
    durable: true,
    settings: SERVER_SETTINGS[name],
  });
  const stop = stoppedAtEnd(async () => {
    await server.stop();
    removeDirectory(dir);
  });
  const admin = new pg.Client({ connectionString: server.url });
  admin.on('error', () => undefined);
  const version = await connectAndAsk(admin).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    url: server.url,
    pid: server.pid,
    version,
    admin,
    async createDatabase(database) {
      await admin.query(`create database ${database}`);
      const url = new URL(server.url);
      url.pathname = `/${database}`;
      return url.href;
    },
    async dropDatabase(database) {
      await admin.query(`drop database if exists ${database} with (force)`);
    },
    async stop() {
      await admin.end();
      await stop();
    },
  };
}

/** Connects and returns the server's version. */
async function connectAndAsk(client: pg.Client): Promise<string> {
  await client.connect();
  const { rows } = await client.query<{ version: string }>(
    `select current_setting('server_version') as version`,
  );
  return rows[0]?.version ?? '';
}

export interface BenchRedis {
  readonly url: string;
  readonly pid: number;
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a Redis with an append-only file. Returns null on a machine without Redis. */
export async function startRedis(dir: string): Promise<BenchRedis | null> {
  if (findRedisServer() === null) return null;
  removeDirectory(dir);
  const redis = await startRedisServer({ dir, appendOnly: true });
  return {
    url: redis.url,
    pid: redis.pid,
    async flush() {
      const client = new Redis(redis.url, { retryStrategy: () => null });
      client.on('error', () => undefined);
      try {
        await client.flushall();
      } finally {
        client.disconnect();
      }
    },
    stop: stoppedAtEnd(async () => {
      await redis.stop();
      removeDirectory(dir);
    }),
  };
}
