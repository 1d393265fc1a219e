import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

/** Submits a batch; returns its id and those of its runs. */
async function submit(
  count: number,
): Promise<{ readonly batchId: string; readonly runIds: readonly string[] }> {
  const requests = await Promise.all(
    Array.from({ length: count }, async () => ({ agent_id: await createAgent(api), input: 'Go.' })),
  );
  const { body } = await api.call('POST', '/v1/messages/batches', { requests });
  const runs = await api.call('GET', `/v1/runs/?batch_id=${body.id}&order=asc`);
  return { batchId: body.id, runIds: runs.body.map((run: { id: string }) => run.id) };
}

/** Adds to the count of runs that are tried again of a run's batch. */
const count = (runId: string | undefined, retrying: number) =>
  api.database.pool.query(
    `insert into batch_tally as t (batch_id, slot, project_id, retrying)
     select batch_id, 0, project_id, $2::int from run where id = $1::uuid
     on conflict (batch_id, slot) do update set retrying = t.retrying + excluded.retrying`,
    [runId?.slice(4), retrying],
  );

/** Lets attempts of a run fail, as a worker's commit does. */
async function fail(runId: string | undefined, type: string, message: string, attempt = 2): Promise<void> {
  await api.database.pool.query(
    `update run set attempt = $4::int, failures = $4::int - 1, failing_since = '2026-01-01T00:00:00Z',
            next_attempt_at = '2026-01-01T00:05:00Z', last_error = json_build_object('type', $2::text, 'message', $3::text)
      where id = $1::uuid`,
    [runId?.slice(4), type, message, attempt],
  );
  await count(runId, 1);
}

const set = (runId: string | undefined, assignments: string) =>
  api.database.pool.query(`update run set ${assignments} where id = $1::uuid`, [runId?.slice(4)]);

const batchOf = async (batchId: string) => (await api.call('GET', `/v1/batches/${batchId}`)).body;
const runOf = async (runId: string | undefined) => (await api.call('GET', `/v1/runs/${runId}`)).body;

describe('a run that waits for its next attempt', () => {
  let batchId = '';
  let runIds: readonly string[] = [];
  beforeEach(async () => {
    ({ batchId, runIds } = await submit(1));
    await fail(runIds[0], 'overloaded_error', 'Overloaded', 3);
  });

  test('shows its last error, its attempts and the time of the next, alone and in lists', async () => {
    const shown = {
      attempt: 3,
      attempts: 2,
      last_error: { type: 'overloaded_error', message: 'Overloaded' },
      next_attempt_at: '2026-01-01T00:05:00.000Z',
    };
    expect(await runOf(runIds[0])).toMatchObject(shown);
    expect((await api.call('GET', `/v1/runs/?batch_id=${batchId}`)).body).toMatchObject([shown]);
  });

  test('shows the error while the next attempt is at the provider', async () => {
    await set(runIds[0], `state = 'in_flight'`);
    expect(await runOf(runIds[0])).toMatchObject({
      attempts: 3,
      last_error: { type: 'overloaded_error' },
      next_attempt_at: null,
    });
    expect(await batchOf(batchId)).toMatchObject({ counts: { retrying: 1, in_progress: 1 } });
  });

  test('shows none of it once it has ended, and neither does its batch', async () => {
    await set(
      runIds[0],
      `state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(),
       failing_since = null, last_error = null, next_attempt_at = null`,
    );
    await count(runIds[0], -1);
    expect(await runOf(runIds[0])).toMatchObject({ attempts: 3, last_error: null, next_attempt_at: null });
    expect(await batchOf(batchId)).toMatchObject({ state_reason: null, counts: { retrying: 0 } });
  });
});

describe('a batch', () => {
  test('counts runs that are tried again and says why, alone and in lists', async () => {
    const { batchId, runIds } = await submit(4);
    expect(await batchOf(batchId)).toMatchObject({ state_reason: null, counts: { retrying: 0 } });
    await fail(runIds[0], 'overloaded_error', 'Overloaded');
    const one = '1 run waits to be tried again: overloaded_error: Overloaded';
    expect(await batchOf(batchId)).toMatchObject({ state_reason: one, counts: { retrying: 1 } });
    await fail(runIds[1], 'overloaded_error', 'Overloaded');
    await fail(runIds[2], 'api_error', 'Internal server error');
    const shown = {
      id: batchId,
      state: 'running',
      state_reason: '3 runs wait to be tried again: mostly overloaded_error: Overloaded',
      counts: { in_progress: 4, retrying: 3 },
    };
    expect(await batchOf(batchId)).toMatchObject(shown);
    const listed = await api.call('GET', '/v1/batches/?limit=1');
    expect(JSON.stringify(listed.body)).toContain(shown.state_reason);
  });

  test('that is paused says why it is paused', async () => {
    const { batchId, runIds } = await submit(1);
    await fail(runIds[0], 'overloaded_error', 'Overloaded');
    await api.call('POST', `/v1/batches/${batchId}/pause`);
    expect(await batchOf(batchId)).toMatchObject({
      state_reason: 'Paused by request; resume it to continue.',
      counts: { retrying: 1 },
    });
  });
});

test('metrics count failed lines by error type, and outages by model', async () => {
  const shown = async (): Promise<readonly string[]> =>
    String((await api.call('GET', '/metrics')).body)
      .split('\n')
      .filter((line) => /^nightshift_(failed_lines|provider_outages)_total/.test(line));
  expect(await shown()).toEqual([]);
  await api.database.pool.query(
    `insert into failed_lines (error_type, slot, project_id, lines)
     select u.t, u.s, p.id, u.n from project p,
            (values ('api_error', 0, 2), ('api_error', 3, 5), ('expired', 0, 1)) as u(t, s, n)`,
  );
  await api.database.pool.query(
    `insert into model_outage (credential, model, project_id, outages, began_at, seen_at)
     select u.c, 'anthropic/claude-haiku-4-5', p.id, 2, app_now(), app_now() from project p, (values ('a'), ('b')) as u(c)`,
  );
  expect(await shown()).toEqual([
    'nightshift_failed_lines_total{type="api_error"} 7',
    'nightshift_failed_lines_total{type="expired"} 1',
    'nightshift_provider_outages_total{model="anthropic/claude-haiku-4-5"} 4',
  ]);
});
