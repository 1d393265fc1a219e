import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_KEY, countRows, createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
let port: number;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
  await api.app.listen({ port: 0 });
  ({ port } = api.app.server.address() as AddressInfo);
});
afterAll(() => api.close());

const lines = (count: number, from = 0) =>
  Array.from(
    { length: count },
    (_, n) => `${JSON.stringify({ agent_id, custom_id: `t-${from + n}`, input: 'x'.repeat(200) })}\n`,
  ).join('');

function post(headers: Record<string, string> = {}) {
  return request({
    ...{ port, method: 'POST', path: '/v1/batches' },
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl', ...headers },
  });
}

async function answerOf(posted: ReturnType<typeof post>) {
  const [response] = (await once(posted, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: (await json(response)) as Record<string, unknown> };
}

const staged = async () =>
  (
    await api.database.pool.query<{ uploads: number; lines: number }>(
      'select (select count(*)::int from upload) as uploads, (select count(*)::int from staged_line) as lines',
    )
  ).rows[0];

describe('an upload over a connection', () => {
  test('that is cut after lines were staged leaves nothing', async () => {
    const before = await countRows(api);
    const posted = post();
    posted.on('error', () => undefined);
    posted.write(lines(15_000));
    await expect.poll(async () => (await staged())?.lines, { timeout: 20_000 }).toBeGreaterThan(0);
    posted.destroy();
    await expect.poll(staged, { timeout: 20_000 }).toEqual({ uploads: 0, lines: 0 });
    expect(await countRows(api)).toEqual(before);
  });

  test('that is refused long before its end gets its answer while it still sends', async () => {
    const posted = post();
    posted.on('error', () => undefined);
    const answered = answerOf(posted);
    posted.write('{"foo": 1}\n');
    for (let part = 0; part < 50; part++) posted.write(lines(500, part * 500));
    const { status, body } = await answered;
    expect([status, body['code']]).toEqual([422, 'validation_failed']);
    expect(await staged()).toEqual({ uploads: 0, lines: 0 });
    posted.destroy();
  });

  test('whose batch another upload has stored meanwhile returns it, also when its own lines cannot be deleted', async () => {
    const headers = { 'idempotency-key': 'twice' };
    const [slow, quick] = [post(headers), post(headers)];
    const answers = [answerOf(slow), answerOf(quick)];
    slow.write(lines(5));
    await expect.poll(async () => (await staged())?.uploads, { timeout: 20_000 }).toBe(1);
    quick.end(lines(10));
    expect((await answers[1])?.status).toBe(200);
    await api.database.pool.query(`
      create function fail() returns trigger language plpgsql as 'begin raise ''No change now.''; end';
      create trigger fail before delete on upload for each row execute function fail();
    `);
    slow.end(lines(5, 5));
    const [first, second] = await Promise.all(answers);
    await api.database.pool.query('drop function fail cascade; delete from staged_line; delete from upload');
    expect([first?.status, first?.body['id']]).toEqual([200, second?.body['id']]);
  });

  test('is not held by the routes of others, and holds none of them', async () => {
    const posted = post();
    const answered = answerOf(posted);
    posted.write(lines(10));
    const bodies = [1, 2, 3].map(() =>
      api.call('POST', '/v1/batches', { requests: [{ agent_id, input: 'Hello.' }] }),
    );
    expect((await Promise.all(bodies)).map(({ status }) => status)).toEqual([200, 200, 200]);
    posted.end(lines(10, 10));
    const { status, body } = await answered;
    expect([status, body['state']]).toEqual([200, 'receiving']);
  });
});
