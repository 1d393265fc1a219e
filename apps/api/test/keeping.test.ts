import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const BATCHES = '/v1/batches';
const submit = async (rest: object = {}): Promise<string> => {
  const agent_id = await createAgent(api);
  const { body } = await api.call('POST', BATCHES, { requests: [{ agent_id, input: 'Go.' }], ...rest });
  return body.id;
};
/** Ends a batch as its cancel would. */
const end = (id: string) =>
  api.database.pool.query(
    `with runs as (update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(), overdue_from = null where batch_id = $1
                    returning *),
          failures as (
            insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, fingerprint)
            select batch_id, id, project_id, ended_at, state, stop_reason, md5('') from runs)
     update batch set state = 'cancelled', cancel_requested_at = app_now(), completed_at = app_now(), next_due_at = null where id = $1`,
    [id.slice('job-'.length)],
  );

describe('DELETE of a batch', () => {
  test('refuses an open batch and says what to do', async () => {
    const id = await submit();
    expect(await api.call('DELETE', `${BATCHES}/${id}`)).toMatchObject({
      status: 409,
      body: { code: 'batch_running', detail: expect.stringContaining('Cancel it') as string },
    });
    expect((await api.call('GET', `${BATCHES}/${id}`)).status).toBe(200);
  });

  test('of an ended batch answers its id; then every read of it is a 404', async () => {
    const id = await submit();
    await end(id);
    const [run] = (
      await api.database.pool.query<{ id: string }>('select id from run where batch_id = $1', [id.slice(4)])
    ).rows;
    const failed = async (): Promise<readonly unknown[]> =>
      (await api.call('GET', '/v1/errors')).body.map(({ batch_id }: { batch_id: string }) => batch_id);
    expect(await failed()).toContain(id);
    expect(await api.call('DELETE', `${BATCHES}/${id}`)).toMatchObject({
      status: 200,
      body: { id, deleted: true },
    });
    for (const path of [
      `${BATCHES}/${id}`,
      `${BATCHES}/${id}/messages`,
      `${BATCHES}/${id}/skipped`,
      `${BATCHES}/${id}/memory-changes`,
      ...['progress', 'timeline', 'events', 'results', 'errors'].map((part) => `${BATCHES}/${id}/${part}`),
      `/v1/runs/run-${run?.id}`,
      `/v1/runs/run-${run?.id}/messages`,
      `/v1/runs/run-${run?.id}/steps`,
      `/v1/runs/run-${run?.id}/usage`,
    ])
      expect({ path, status: (await api.call('GET', path)).status }).toEqual({ path, status: 404 });
    const listed = await api.call('GET', BATCHES);
    expect(listed.body.map((batch: { id: string }) => batch.id)).not.toContain(id);
    expect(await failed()).not.toContain(id);
    expect((await api.call('DELETE', `${BATCHES}/${id}`)).status).toBe(404);
  });

  test('of an unknown batch is a 404, of a malformed id a 422 or 400', async () => {
    expect((await api.call('DELETE', `${BATCHES}/job-${UNKNOWN_UUID}`)).status).toBe(404);
    expect([400, 422]).toContain((await api.call('DELETE', `${BATCHES}/job-x`)).status);
  });

  test('keeps its idempotency key, so that a repetition does not pay again', async () => {
    const agent_id = await createAgent(api);
    const post = () =>
      api.call('POST', BATCHES, { requests: [{ agent_id, input: 'Go.' }] }, { 'idempotency-key': 'once' });
    const { body } = await post();
    await end(body.id);
    await api.call('DELETE', `${BATCHES}/${body.id}`);
    expect(await post()).toMatchObject({
      status: 404,
      body: {
        detail: expect.stringContaining(
          `This Idempotency-Key has made the batch ${body.id}, which was deleted. Send a new key.`,
        ) as string,
      },
    });
  });
});

test('a batch takes expires_in_days, and refuses less than a day', async () => {
  const id = await submit({ expires_in_days: 7 });
  const { rows } = await api.database.pool.query('select expires_in_days from batch where id = $1', [
    id.slice(4),
  ]);
  expect(rows).toEqual([{ expires_in_days: 7 }]);
  const agent_id = await createAgent(api);
  const refused = await api.call('POST', BATCHES, {
    requests: [{ agent_id, input: 'Go.' }],
    expires_in_days: 0,
  });
  expect(refused).toMatchObject({ status: 422, body: { errors: [{ path: '/expires_in_days' }] } });
});

describe('GET /v1/usage', () => {
  test('answers the last 30 days by day, and other groups', async () => {
    const { status, body } = await api.call('GET', '/v1/usage?to=2026-01-30');
    expect(status).toBe(200);
    expect(body).toEqual({ from: '2026-01-01', to: '2026-01-30', group_by: 'day', data: [] });
    await api.database.pool.query(
      `insert into usage_day values ($1, (app_now() at time zone 'UTC')::date, 'anthropic/x', '{}', null, 1, 2, 3, 4, 5, 6, 7, 8, 90000000, 0)`,
      [PROJECT_ID],
    );
    const today = await api.call('GET', '/v1/usage?group_by=model');
    expect(today.body.data).toEqual([
      {
        ...{ key: 'anthropic/x', runs: { completed: 1, failed: 2, cancelled: 3 }, steps: 4, input_tokens: 5 },
        ...{
          output_tokens: 6,
          cache_write_tokens: 7,
          cache_read_tokens: 8,
          cost_usd: '0.09',
          unpriced_steps: 0,
        },
      },
    ]);
    for (const group_by of ['tag', 'schedule'])
      expect((await api.call('GET', `/v1/usage?group_by=${group_by}`)).body.data).toMatchObject([
        { key: null },
      ]);
  });

  test.each([
    ['from=2026-02-01&to=2026-01-01', '?from'],
    ['from=1990-01-01&to=2026-01-01', '?from'],
    ['from=yesterday', '?from'],
    ['to=2026-13-01', '?to'],
    ['group_by=agent', '?group_by'],
  ])('refuses %s', async (query, path) => {
    const { status, body } = await api.call('GET', `/v1/usage?${query}`);
    expect({ status, path: body.errors?.[0]?.path }).toEqual({ status: 422, path });
  });
});
