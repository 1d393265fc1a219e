import type {} from '../global-setup.ts';
import { expect, inject, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { migrateToLatest } from '../../libs/db/src/index.ts';
import { openStackHouse, type StackHouse } from './house.ts';

const MINUTES = 10;
/** The database's minutes in one of the machine's. */
const SPEED = Number(process.env['MINUTELY_SPEED'] ?? '20');

interface Tick {
  readonly due_at: string;
  readonly outcome: string;
  readonly job_id: string | null;
}

/** Reads the ticks of a schedule, the latest first. */
const ticksOf = (house: StackHouse, id: string) =>
  house.client.get<readonly Tick[]>(`/v1/schedules/${id}/ticks?limit=100`);

test('a schedule of every minute makes ten batches in ten minutes, though a worker is killed in each', async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  await migrateToLatest(database.db);
  // The one clock of the product runs fast, so that ten minutes pass in seconds.
  await database.pool.query(
    `create or replace function app_now() returns timestamptz language sql volatile parallel safe as
     $$ select '2026-11-01T00:00:30Z'::timestamptz
               + (clock_timestamp() - '${new Date().toISOString()}'::timestamptz) * ${SPEED} $$`,
  );
  const house = await openStackHouse({
    simulatorLatency: 'fixed:0',
    workers: 3,
    databaseUrl: database.url,
    // In the database's time: a second of the machine.
    workerEnv: {
      ...{ LEASE_MS: String(SPEED * 1_000), QUARANTINE_MS: String(SPEED * 1_000) },
      ...{ CREATE_TIMEOUT_MS: '500', SWEEP_INTERVAL_MS: '100' },
    },
  });
  try {
    const { id } = await house.client.post<{ readonly id: string }>('/v1/schedules', {
      ...{ name: 'minutely', cron: '* * * * *', time_zone: 'UTC', overlap: 'queue' },
      // Batches without runs, which end within a minute even if their worker is killed.
      body: { agents: {}, input: 'It is {{ tick.due_at }}.', allow_empty: true },
    });
    let workers = 3;
    for (let seen = 0; seen < MINUTES;) {
      const ticks = await ticksOf(house, id);
      if (ticks.length === seen) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        continue;
      }
      seen = ticks.length;
      const victim = house.stack.workers.at(-3);
      await victim?.kill();
      workers += 1;
      await house.stack.addWorker(`worker-${workers}`);
    }
    const ticks = (await ticksOf(house, id)).slice(-MINUTES);
    await house.client.post(`/v1/schedules/${id}/pause`, {});
    expect(ticks.map(({ outcome }) => outcome)).toEqual(ticks.map(() => 'started'));
    const times = ticks.map(({ due_at }) => Date.parse(due_at)).sort();
    expect(times).toEqual(times.map((_, index) => (times[0] ?? 0) + index * 60_000));
    for (const { job_id } of ticks) await house.untilStatus(job_id ?? '', 'completed');
    const { rows } = await house.stack.pool.query<{ batches: number }>(
      'select count(*)::int as batches from batch where schedule_id is not null',
    );
    expect(rows[0]?.batches).toBe((await ticksOf(house, id)).length);
  } finally {
    await house.close();
    await database.close();
  }
});
