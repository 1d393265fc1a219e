import type {} from '../global-setup.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, test, vi } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { findRedisServer, startRedisServer } from '../../libs/services/src/index.ts';
import { createAgents, newWork, openStackHouse } from './house.ts';

// Real processes on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Runs a batch through a stack with this queue. */
async function finishBatchOver(queueUrl: string): Promise<void> {
  const database = await openTestDatabase(inject('postgresUrl'));
  const house = await openStackHouse({
    simulatorLatency: 'uniform:50-200',
    databaseUrl: database.url,
    queueUrl,
  });
  try {
    expect(house.stack.queueUrl).toBe(queueUrl);
    const batchId = await house.submit(await createAgents(house, 5), newWork());
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', metadata: { completed: 5, steps: 15 } });
    await house.expectPaidOnce();
  } finally {
    await house.close();
    await database.close();
  }
}

test('without a queue a batch finishes by the sweep alone', () => finishBatchOver('none'));

const redisServer = findRedisServer();
test.skipIf(redisServer === null)(
  `with Redis as its queue a batch finishes${redisServer === null ? ': no redis-server on PATH' : ''}`,
  async () => {
    const dir = await mkdtemp(join(tmpdir(), 'nightshift-redis-'));
    const redis = await startRedisServer({ dir });
    try {
      await finishBatchOver(redis.url);
    } finally {
      await redis.stop();
      await rm(dir, { recursive: true, force: true });
    }
  },
);
