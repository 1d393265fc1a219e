import type {} from '../global-setup.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import {
  type Container,
  dockerEngineAnswers,
  findRedisServer,
  startRedisContainer,
  startRedisServer,
} from '../../libs/services/src/index.ts';
import { createAgents, newWork, openStackHouse } from './house.ts';

/** Runs a batch through a stack with this queue; `meanwhile` happens when its first steps are with the provider. */
async function finishBatchOver(queueUrl: string, meanwhile?: () => Promise<void>): Promise<void> {
  const database = await openTestDatabase(inject('postgresUrl'));
  const house = await openStackHouse({
    simulatorLatency: 'uniform:50-200',
    databaseUrl: database.url,
    queueUrl,
  });
  try {
    expect(house.stack.queueUrl).toBe(queueUrl);
    const batchId = await house.submit(await createAgents(house, 5), newWork());
    if (meanwhile !== undefined) {
      const isSent = `select 1 from provider_batch where state = 'submitted'`;
      while ((await database.pool.query(isSent)).rowCount === 0) await new Promise(setImmediate);
      await meanwhile();
    }
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', metadata: { completed: 5, steps: 15 } });
    await house.expectPaidOnce();
  } finally {
    await house.close();
    await database.close();
  }
}

test('without a queue a batch finishes by the sweep alone', () => finishBatchOver('none'));

/** How Redis comes about here: a container where one is asked for and can be had, else the server on the PATH. */
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
      finishBatchOver(redis.url, async () => {
        const client = new Redis(redis.url);
        await client.flushall();
        client.disconnect();
      }));
  },
);
