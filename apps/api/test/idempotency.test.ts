import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { connect } from '@nightshift/db';
import { createPool } from '@nightshift/services';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import {
  API_KEY,
  countRows,
  createAgent,
  openApi,
  UNKNOWN_UUID,
  untilLockIsAwaited,
  type TestApi,
} from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const submit = (requests: unknown, headers: Record<string, string> = {}) =>
  api.call('POST', '/v1/messages/batches', { requests }, headers);

describe('a repeated create', () => {
  test('with an Idempotency-Key returns the same batch, even concurrently', async () => {
    const agent_id = await createAgent(api);
    const before = (await countRows(api)).batch!;
    const headers = { 'idempotency-key': 'night-1' };
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => submit([{ agent_id, input: 'Go.' }], headers)),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    expect(answers.filter((answer) => answer.headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect((await countRows(api)).batch).toBe(before + 1);
  });

  test('with the key and another body is 422 and stores nothing', async () => {
    const agent_id = await createAgent(api);
    const headers = { 'idempotency-key': 'night-2' };
    await submit([{ agent_id, input: 'Go.' }], headers);
    const before = await countRows(api);
    const answer = await submit([{ agent_id, input: 'Stop.' }], headers);
    expect([answer.status, answer.body.code]).toEqual([422, 'idempotency_mismatch']);
    expect(await countRows(api)).toEqual(before);
  });

  test('after a failed request may use the key again', async () => {
    const agent_id = await createAgent(api);
    const headers = { 'idempotency-key': 'night-3' };
    expect((await submit([{ agent_id: `agent-${UNKNOWN_UUID}`, input: 'x' }], headers)).status).toBe(404);
    expect((await submit([{ agent_id, input: 'x' }], headers)).status).toBe(200);
  });

  test("as a client's retry returns the same batch; as a new request a new batch", async () => {
    const agent_id = await createAgent(api);
    const body = [{ agent_id, input: 'Go.' }];
    const first = await submit(body, { 'x-stainless-retry-count': '0' });
    const retry = await submit(body, { 'x-stainless-retry-count': '1' });
    const second = await submit(body, { 'x-stainless-retry-count': '0' });
    const retryOfSecond = await submit(body, { 'x-stainless-retry-count': '2' });
    expect(retry.body.id).toBe(first.body.id);
    expect(retry.headers['idempotent-replayed']).toBe('true');
    expect(second.body.id).not.toBe(first.body.id);
    expect(retryOfSecond.body.id).toBe(second.body.id);
  });

  test("as a first try that its own retry has overtaken returns the retry's batch", async () => {
    const agent_id = await createAgent(api);
    const body = [{ agent_id, input: 'Go.' }];
    const { body: made } = await submit(body, { 'x-stainless-retry-count': '1' });
    const { pool } = api.database;
    const before = await countRows(api);
    const client = await pool.connect();
    try {
      const { rows } = await client.query<{ key: string; project_id: string }>(
        'select key, project_id from idempotency_key order by created_at desc limit 1',
      );
      const { key, project_id } = rows[0]!;
      // Stands for the retry, which holds the key while the first try waits.
      await client.query('begin');
      await client.query('select pg_advisory_xact_lock(hashtextextended($1, 7202))', [
        `${project_id} ${key}`,
      ]);
      const first = submit(body, { 'x-stainless-retry-count': '0' });
      await untilLockIsAwaited(api);
      await client.query('update idempotency_key set created_at = app_now() where key = $1', [key]);
      await client.query('commit');
      expect((await first).body.id).toBe(made.id);
    } finally {
      client.release();
    }
    expect(await countRows(api)).toEqual(before);
    expect((await submit(body)).body.id).not.toBe(made.id);
  });

  test("as a first try that arrived before its retry, but with a slower body, returns the retry's batch", async () => {
    const requests = [{ agent_id: await createAgent(api), input: 'Go.' }];
    const url = await api.app.listen({ port: 0 });
    const first = request(`${url}/v1/batches`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    });
    const answer = once(first, 'response');
    const arrival = once(api.app.server, 'request');
    first.flushHeaders();
    await arrival;
    const { body: made } = await submit(requests, { 'x-stainless-retry-count': '1' });
    first.end(JSON.stringify({ requests }));
    const [response] = (await answer) as [IncomingMessage];
    expect(await json(response)).toMatchObject({ id: made.id });
  });

  test('returns the batch accepted before a now past deadline; another batch is refused', async () => {
    const agent_id = await createAgent(api);
    const nowMs = Date.now();
    const body = {
      requests: [{ agent_id, input: 'Go.', deadline: new Date(nowMs + 120_000).toISOString() }],
      deadline: new Date(nowMs + 60_000).toISOString(),
    };
    const headers = { 'idempotency-key': 'night-with-a-deadline' };
    const made = await api.call('POST', '/v1/batches', body, headers);
    const unnamed = await api.call('POST', '/v1/batches', body);
    expect([made.status, unnamed.status]).toEqual([200, 200]);

    const later = new Date(nowMs + 180_000).toISOString();
    const url = new URL(api.database.url);
    url.searchParams.set('options', `-c nightshift.now=${later}`);
    const db = connect(createPool({ url: url.href.replaceAll('+', '%20'), max: 2 }));
    const bell = { ring: () => Promise.resolve() };
    const app = buildServer({ db, bell, apiKey: API_KEY, model: 'simulator' });
    const again = (more: Record<string, string>) =>
      app.inject({
        method: 'POST',
        url: '/v1/batches',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...more },
        payload: JSON.stringify(body),
      });
    const before = await countRows(api);
    const replayed = await again(headers);
    expect([replayed.statusCode, replayed.json<{ id: string }>().id]).toEqual([200, made.body.id]);
    const retried = await again({ 'x-stainless-retry-count': '1' });
    expect([retried.statusCode, retried.json<{ id: string }>().id]).toEqual([200, unnamed.body.id]);
    const refused = await again({ 'idempotency-key': 'another-night' });
    expect(refused.json()).toMatchObject({
      status: 422,
      errors: [{ path: '/deadline' }, { path: '/requests/0/deadline' }],
      detail: expect.stringContaining(later),
    });
    expect(await countRows(api)).toEqual(before);
    await app.close();
    await db.destroy();
  });

  test('concurrently without a retry makes a batch each', async () => {
    const requests = [{ agent_id: await createAgent(api), input: 'Go.' }];
    const twins = await Promise.all([submit(requests), submit(requests)]);
    expect(new Set(twins.map(({ body }) => body.id)).size).toBe(2);
  });

  test('as a retry long after its first try makes a new batch', async () => {
    const agent_id = await createAgent(api);
    const first = await submit([{ agent_id, input: 'Go.' }]);
    await api.database.pool.query(
      `update idempotency_key set created_at = created_at - interval '11 minutes'`,
    );
    const retry = await submit([{ agent_id, input: 'Go.' }], { 'x-stainless-retry-count': '1' });
    expect(retry.body.id).not.toBe(first.body.id);
  });

  test.each(['', 'a b', 'x'.repeat(201)])('with an invalid key is 400: %j', async (key) => {
    const agent_id = await createAgent(api);
    const answer = await submit([{ agent_id, input: 'Go.' }], { 'idempotency-key': key });
    expect(answer.status).toBe(400);
  });
});
