import type {} from '../global-setup.ts';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { createAgents, newWork, openStackHouse } from './house.ts';

test('workers with clocks ten minutes ahead and behind violate nothing', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  const house = await openStackHouse({
    simulatorLatency: 'uniform:50-200',
    databaseUrl: database.url,
    // Far less than the difference of the clocks, and more than a busy machine delays a worker.
    workerEnv: { LEASE_MS: '30000', QUARANTINE_MS: '30000' },
    workerNodeArguments: ['--import', join(import.meta.dirname, '../fixtures/shifted-clock.mjs')],
  });
  try {
    const batchId = await house.submit(await createAgents(house, 30), newWork());
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', counts: { completed: 30 }, usage: { steps: 90 } });
    await house.expectPaidOnce();
    // Neither took over the other's work, and their rows have the database's time.
    const [row] = (
      await database.pool.query<{ taken: number; strange: number }>(
        `select (select sum(takeovers)::int from provider_batch) as taken,
                (select count(*)::int from step
                  where greatest(sealed_at, applied_at) > clock_timestamp()
                     or least(sealed_at, applied_at) < (select created_at from batch)) as strange`,
      )
    ).rows;
    expect(row).toEqual({ taken: 0, strange: 0 });
  } finally {
    await house.close();
    await database.close();
  }
});
