import type {} from '../global-setup.ts';
import { expect, inject, test } from 'vitest';
import { openTestDatabase, type TestDatabase } from '../../libs/db/src/testing/index.ts';
import { createAgents, newWork, openStackHouse, type StackHouse } from './house.ts';

const RUNS = 8;
const MINUTES = 60_000;

async function openHouse(
  workerEnv: Record<string, string> = {},
): Promise<{ readonly house: StackHouse; readonly database: TestDatabase; close(): Promise<void> }> {
  const database = await openTestDatabase(inject('postgresUrl'));
  const house = await openStackHouse({
    simulatorLatency: 'uniform:50-200',
    databaseUrl: database.url,
    workerEnv: { HUNT_INTERVAL_MS: '200', ...workerEnv },
  });
  return {
    house,
    database,
    async close() {
      await house.close();
      await database.close();
    },
  };
}

/** Polls until the condition holds; the test's time limit ends the wait. */
async function until<T>(read: () => Promise<T>, isThere: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isThere(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

interface SimulatedBatch {
  readonly id: string;
  readonly status: string;
}

const batchesOf = async (house: StackHouse): Promise<readonly SimulatedBatch[]> =>
  (await house.control<{ batches: SimulatedBatch[] }>('GET', '/batches')).batches;

/** Counts the provider's list requests. */
const listsOf = async (house: StackHouse): Promise<number> =>
  (await house.control<{ entries: object[] }>('GET', '/journal?limit=1000&op=list')).entries.length;

test.each([-15, 5])(
  "a create without an answer is found although the provider's clock is %d minutes off, and nothing is paid twice",
  async (minutes) => {
    const { house, close } = await openHouse();
    try {
      await house.control('POST', '/config', { timestamps: { skew_ms: minutes * MINUTES } });
      await house.control('POST', '/rules', {
        op: 'create',
        match: { nth: 1 },
        action: { type: 'commitThenDrop' },
      });
      const batchId = await house.submit(await createAgents(house, RUNS), newWork());
      const batch = await house.untilStatus(batchId, 'completed', 'failed');
      expect(batch).toMatchObject({
        status: 'completed',
        counts: { completed: RUNS },
        usage: { steps: 3 * RUNS },
      });
      await house.expectPaidOnce();
      const { clocks } = await house.client.get<{ clocks: { offset_seconds: number }[] }>('/v1/admin/audit');
      expect(clocks).toMatchObject([{ name: 'default', alarm: true }]);
      expect(Math.abs((clocks[0]?.offset_seconds ?? 0) - minutes * 60)).toBeLessThan(5);
    } finally {
      await close();
    }
  },
);

test.each([
  ['0', 'cancelled on sight', 600_000],
  ['1', 'proven by its nonce at its end', 100],
] as const)(
  'a create that arrives long after its steps were resent is booked as an orphan: WORKSPACE_SHARED=%s, %s',
  async (shared, _how, ms) => {
    const { house, database, close } = await openHouse({ WORKSPACE_SHARED: shared });
    try {
      await house.control('POST', '/rules', {
        op: 'create',
        match: { nth: 1 },
        actions: [
          { type: 'commitLate', ms: 10 * MINUTES },
          { type: 'latency', ms },
        ],
      });
      const batchId = await house.submit(await createAgents(house, RUNS), newWork());
      const batch = await house.untilStatus(batchId, 'completed', 'failed');
      expect(batch).toMatchObject({
        status: 'completed',
        counts: { completed: RUNS },
        usage: { steps: 3 * RUNS },
      });
      await house.control('POST', '/clock/advance', { ms: 10 * MINUTES });
      const orphans = await until(
        async () =>
          (
            await database.pool.query<{ provider_id: string }>(
              `select provider_id from provider_batch where state = 'orphan_paid'`,
            )
          ).rows,
        (rows) => rows.length > 0,
      );
      const [late] = await until(
        async () => (await batchesOf(house)).slice(-1),
        ([last]) => last?.status === 'ended',
      );
      expect(orphans).toEqual([{ provider_id: late?.id }]);
      // In a workspace of our own it would run for minutes.
      expect(late?.status).toBe('ended');
    } finally {
      await close();
    }
  },
);

test('a database clock that jumps ahead during a create withdraws nothing: its answer is booked', async () => {
  const { house, database, close } = await openHouse({ CREATE_TIMEOUT_MS: '20000', QUARANTINE_MS: '25000' });
  try {
    const { id } = await house.control<{ id: string }>('POST', '/rules', {
      op: 'create',
      match: { times: 1 },
      action: { type: 'hold', at: 'before' },
    });
    const batchId = await house.submit(await createAgents(house, RUNS), newWork());
    await until(
      async () => (await database.pool.query(`select 1 from provider_batch where state = 'submitting'`)).rows,
      (rows) => rows.length > 0,
    );
    const jump = (minutes: number) =>
      database.pool.query(
        `create or replace function app_now() returns timestamptz language sql volatile parallel safe as
         $$ select clock_timestamp() + interval '${minutes} minutes' $$`,
      );
    // Longer than any lease: for other workers the sender's lease has expired. Then longer than the quarantine too.
    await jump(10);
    await until(
      async () => (await database.pool.query(`select 1 from provider_batch where state = 'unknown'`)).rows,
      (rows) => rows.length > 0,
    );
    const before = await listsOf(house);
    await jump(15);
    await until(
      () => listsOf(house),
      (lists) => lists >= before + 4,
    );
    await house.control('DELETE', `/rules/${id}`);
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({
      status: 'completed',
      counts: { completed: RUNS },
      usage: { steps: 3 * RUNS },
    });
    await house.expectPaidOnce();
    expect(await batchesOf(house)).toHaveLength(3);
  } finally {
    await close();
  }
});
