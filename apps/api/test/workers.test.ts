import { commitHeartbeat, newId, type WorkerSelf } from '@nightshift/db';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());
afterEach(async () => {
  await api.database.pool.query('delete from worker; delete from run_chunk');
});

const SELF: WorkerSelf = {
  owner: 'worker-1@host:1-abc',
  name: 'worker-1',
  host: 'host',
  pid: 1,
  version: '0.1.0',
  tools: { search: 'abc', count: 'def' },
};
const beat = (): Promise<boolean> => commitHeartbeat(api.database.db, PROJECT_ID, SELF);
const list = async () => (await api.call('GET', '/v1/workers')).body;

test('a worker is listed with its tools and its leases in force', async () => {
  expect(await list()).toEqual([]);
  await beat();
  const lease = async (owner: string, until: string): Promise<void> => {
    await api.database.pool.query(
      `insert into run_chunk (id, project_id, kind, run_ids, next_due_at, lease_owner, lease_until)
       values ($1, $2, 'ready', array[$1::uuid], app_now(), $3, app_now() + $4::interval)`,
      [newId(), PROJECT_ID, owner, until],
    );
  };
  await lease(SELF.owner, '1 minute');
  await lease(SELF.owner, '-1 second');
  await lease('another', '1 minute');
  expect(await list()).toMatchObject([
    {
      name: 'worker-1',
      owner: SELF.owner,
      state: 'alive',
      drain_requested_at: null,
      leases: { batches: 0, provider_batches: 0, chunks: 1, credentials: 0, removed_batches: 0 },
      tools: ['count', 'search'],
    },
  ]);
});

test('a drain is shown, repeated without an error, and told at the next heartbeat', async () => {
  expect(await beat()).toBe(false);
  const [{ id }] = await list();
  const drained = await api.call('POST', `/v1/workers/${id}/drain`);
  expect([drained.status, drained.body.id, drained.body.state]).toEqual([200, id, 'draining']);
  expect((await api.call('POST', `/v1/workers/${id}/drain`)).body).toMatchObject({
    drain_requested_at: drained.body.drain_requested_at,
  });
  expect(await beat()).toBe(true);
});

test('a worker without a heartbeat for a minute is dead, and cannot be drained', async () => {
  await beat();
  await api.database.pool.query(`update worker set heartbeat_at = app_now() - interval '61 seconds'`);
  const [{ id, state }] = await list();
  expect(state).toBe('dead');
  expect(await api.call('POST', `/v1/workers/${id}/drain`)).toMatchObject({ status: 409 });
  expect(await api.call('POST', `/v1/workers/worker-${UNKNOWN_UUID}/drain`)).toMatchObject({ status: 404 });
});
