import {
  assertSchemaCompatibility,
  createPostgresBackend,
  runMigrations,
  SchemaMigrationRequiredError,
  withBackend,
  type BackendFactory,
  type JobProgress,
  type PgPool,
  type PostgresConnectionOptions,
  type PostgresQueueBackend,
  type Worker,
} from 'bullmq';
import pg from 'pg';
import { observeClaims, queueOptions, sendThrough, workerOptions } from './bullmq.ts';
import { settles, within } from './deadline.ts';
import { QueueRefusedError, type Post, type ReceivingLink, type SendingLink } from './port.ts';
import type { QueueTarget } from './queue-url.ts';
import type { Report } from './report.ts';
import type { QueueName } from './signal.ts';

/** Where BullMQ keeps its tables; ours are elsewhere. */
const schema = 'bullmq';
const readyTimeoutMs = 3_000;
const migrateTimeoutMs = 60_000;
const goodbyeMs = 1_000;

const { Queue } = withBackend(createPostgresBackend);
type PostgresWorker = Worker<
  unknown,
  void,
  string,
  PostgresQueueBackend,
  JobProgress,
  PostgresConnectionOptions
>;

/** Creates or upgrades BullMQ's tables. Any number of processes may do so at once. Rejects when Postgres is not there. */
export function migratePostgresQueue(target: QueueTarget): Promise<void> {
  return onPostgres(target, (client) => runMigrations(client, schema));
}

/** Rejects when Postgres is not there; whether the role may create tables is only known when it does. */
export function checkPostgresQueue(target: QueueTarget): Promise<void> {
  return onPostgres(target, () => Promise.resolve());
}

/** Does `work` over a connection of its own. What goes wrong is said of QUEUE_URL. */
async function onPostgres(target: QueueTarget, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  try {
    await onClient(target, work);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === '42501')
      throw new QueueRefusedError(
        `the role of QUEUE_URL may not create schema "${schema}" or tables in it: grant it CREATE on the database, or choose another queue`,
        { cause: error },
      );
    throw new Error(
      `Cannot use the PostgreSQL of QUEUE_URL (by default that of DATABASE_URL): ${message || code}`,
      { cause: error },
    );
  }
}

async function onClient(target: QueueTarget, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({
    connectionString: target.url,
    connectionTimeoutMillis: readyTimeoutMs,
    query_timeout: migrateTimeoutMs,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await work(client);
  } finally {
    await settles(client.end(), goodbyeMs);
  }
}

/** Connects a sender; rejects unless Postgres answers and has the tables. */
export async function openPostgresSender(
  target: QueueTarget,
  connectTimeoutMs: number,
  report: Report,
): Promise<SendingLink> {
  const { pool, drain } = openPool(target, { max: 2, timeoutMs: connectTimeoutMs, report });
  try {
    await assertMigrated(pool);
    const open = (name: QueueName) => {
      const queue = new Queue(queueName(target, name), { ...queueOptions, connection: asBullmqPool(pool) });
      queue.on('error', report);
      return queue;
    };
    const queues = { control: open('control'), work: open('work') };
    return {
      send: sendThrough(queues, report),
      async discard() {
        await settles(Promise.all(Object.values(queues).map((queue) => queue.close())), goodbyeMs);
        await drain();
      },
    };
  } catch (error) {
    await drain();
    throw error;
  }
}

/**
 * Starts one worker per post on a pool of their own. At most two processes should do this against one database: beyond
 * that BullMQ's statements deadlock with each other, which costs repeated signals and time.
 */
export async function openPostgresReceiver(
  target: QueueTarget,
  posts: readonly Post[],
  idlePollMs: number,
  report: Report,
): Promise<ReceivingLink> {
  // Each worker keeps one client for LISTEN; the rest is for claims, completions and lock renewals.
  const { pool, drain } = openPool(target, { max: posts.length + 3, timeoutMs: readyTimeoutMs, report });
  const backends: PostgresQueueBackend[] = [];
  const workers: PostgresWorker[] = [];

  async function discard(graceMs: number): Promise<void> {
    const closed = await settles(Promise.all(workers.map((worker) => worker.close())), graceMs);
    if (!closed) await settles(Promise.all(backends.map((backend) => backend.close(true))), goodbyeMs);
    await drain();
  }

  try {
    // Before any Worker exists: one that meets a database without its tables eats the process.
    await assertMigrated(pool);
    for (const post of posts) {
      const createBackend: BackendFactory<PostgresQueueBackend, PostgresConnectionOptions> = (...args) => {
        const backend = observeClaims(createPostgresBackend(...args), post.noteProgress);
        backends.push(backend);
        return backend;
      };
      const { Worker } = withBackend(createBackend);
      const worker = new Worker<unknown, void>(queueName(target, post.name), (job) => post.handle(job.data), {
        ...workerOptions(post, idlePollMs),
        connection: asBullmqPool(pool),
      });
      worker.on('error', report);
      workers.push(worker);
    }
    await within(
      Promise.all(workers.map((worker) => worker.waitUntilReady())),
      readyTimeoutMs,
      'starting the Postgres workers',
    );
    for (const worker of workers) worker.run().catch(report);
  } catch (error) {
    await discard(goodbyeMs);
    throw error;
  }
  return { isRunning: () => workers.every((worker) => worker.isRunning()), discard };
}

/** There is no key prefix on Postgres, so the queue's name carries it. */
function queueName(target: QueueTarget, name: QueueName): string {
  return `${target.prefix}-${name}`;
}

async function assertMigrated(pool: pg.Pool): Promise<void> {
  try {
    await assertSchemaCompatibility(pool, schema);
  } catch (error) {
    if (!(error instanceof SchemaMigrationRequiredError)) throw error;
    throw new Error(`the queue's tables are missing in schema "${schema}": run the migrations first`, {
      cause: error,
    });
  }
}

/** A pg.Pool is what BullMQ wants; only its overloaded signatures do not say so to the compiler. */
function asBullmqPool(pool: pg.Pool): PgPool {
  return pool as unknown as PgPool;
}

interface PoolOptions {
  readonly max: number;
  readonly timeoutMs: number;
  readonly report: Report;
}

/**
 * A small pool that survives its server. Every client has an error handler of its own, because the pool's does not cover
 * one that is checked out; `drain` ends it and waits until its sockets are really closed, which `end()` does not.
 */
function openPool(
  target: QueueTarget,
  { max, timeoutMs, report }: PoolOptions,
): { pool: pg.Pool; drain: () => Promise<void> } {
  const url = new URL(target.url);
  // Options in the URL would win over the pool's, so ours are added to them there.
  url.searchParams.set('options', `${url.searchParams.get('options') ?? ''} -c search_path=${schema}`.trim());
  const pool = new pg.Pool({
    connectionString: url.href,
    max,
    application_name: 'nightshift queue',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  });
  const open = new Set<pg.PoolClient>();
  pool.on('error', report);
  pool.on('connect', (client) => {
    open.add(client);
    client.on('error', report);
  });
  pool.on('remove', (client) => open.delete(client));

  async function drain(): Promise<void> {
    const removed = new Promise<void>((resolve) => {
      const check = () => {
        if (open.size === 0) resolve();
      };
      pool.on('remove', check);
      check();
    });
    pool.end().catch(report);
    if (await settles(removed, goodbyeMs)) return;
    for (const client of open) destroySocket(client);
  }

  return { pool, drain };
}

/** For a server that does not answer our goodbye: an open socket would keep the process alive. */
function destroySocket(client: pg.PoolClient): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}
