import type {} from '../global-setup.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openTestDatabase, type TestDatabase } from '../../libs/db/src/testing/index.ts';
import {
  type Container,
  dockerEngineAnswers,
  findRedisServer,
  startRedisContainer,
  startRedisServer,
} from '../../libs/services/src/index.ts';
import { createAgents, newWork, openStackHouse } from './house.ts';

interface Circumstances {
  /** Called when the first steps of the batch are at the provider. */
  readonly meanwhile?: (database: TestDatabase) => Promise<void>;
  /** Called when the batch has finished. */
  readonly after?: (database: TestDatabase) => Promise<void>;
  readonly workers?: number;
  readonly workerEnv?: Readonly<Record<string, string>>;
}

/** Runs a batch through a stack with this queue, by default in its database. */
async function finishBatchOver(
  givenQueueUrl: string | undefined,
  { meanwhile, after, workers = 2, workerEnv = {} }: Circumstances = {},
): Promise<void> {
  const database = await openTestDatabase(inject('postgresUrl'));
  const queueUrl = givenQueueUrl ?? database.url;
  const house = await openStackHouse({
    simulatorLatency: 'uniform:50-200',
    databaseUrl: database.url,
    queueUrl,
    workers,
    workerEnv,
  });
  try {
    expect(house.stack.queueUrl).toBe(queueUrl);
    const batchId = await house.submit(await createAgents(house, 5), newWork());
    if (meanwhile !== undefined) {
      const isSent = `select 1 from provider_batch where state = 'submitted'`;
      while ((await database.pool.query(isSent)).rowCount === 0) await new Promise(setImmediate);
      await meanwhile(database);
    }
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', counts: { completed: 5 }, usage: { steps: 15 } });
    await house.expectPaidOnce();
    await after?.(database);
  } finally {
    await house.close();
    await database.close();
  }
}

test('without a queue a batch finishes by the sweep alone', () => finishBatchOver('none'));

describe('with the queue on Postgres, and no sweep for a minute', () => {
  const workerEnv = { SWEEP_INTERVAL_MS: '60000' };

  async function deadlocksOf({ pool }: TestDatabase): Promise<number | undefined> {
    const { rows } = await pool.query<{ deadlocks: number }>(
      'select deadlocks::int from pg_stat_database where datname = current_database()',
    );
    return rows[0]?.deadlocks;
  }

  test('eight workers finish a batch without a deadlock', () =>
    finishBatchOver(undefined, {
      workers: 8,
      workerEnv,
      after: async (database) => expect(await deadlocksOf(database)).toBe(0),
    }));

  test('a batch finishes although every connection of the queue is cut in the middle', () =>
    finishBatchOver(undefined, {
      workerEnv,
      meanwhile: async ({ pool }) => {
        const { rowCount } = await pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'nightshift queue'`,
        );
        // A bell and a listener for each worker, and the API's bell.
        expect(rowCount).toBe(5);
      },
    }));
});

/** Finds Redis: a container if requested and available, else the server on the PATH. */
async function findRedis(): Promise<((dir: string) => Promise<Container>) | null> {
  const wantsDocker = process.env.NIGHTSHIFT_USE_DOCKER === '1';
  if (wantsDocker && (await dockerEngineAnswers(process.env.DOCKER_HOST || undefined)))
    return startRedisContainer;
  return findRedisServer() === null ? null : (dir) => startRedisServer({ dir });
}

const startRedis = await findRedis();
describe.skipIf(startRedis === null)(
  `with Redis as its queue${startRedis === null ? ': no redis-server on PATH, and no container' : ''}`,
  () => {
    let dir: string;
    let redis: Container;
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'nightshift-redis-'));
      redis = await startRedis!(dir);
    });
    afterAll(async () => {
      await redis.stop();
      await rm(dir, { recursive: true, force: true });
    });

    test('a batch finishes', () => finishBatchOver(redis.url));

    test('FLUSHALL in the middle of a batch loses nothing', () =>
      finishBatchOver(redis.url, {
        meanwhile: async () => {
          const client = new Redis(redis.url);
          await client.flushall();
          client.disconnect();
        },
      }));
  },
);
