import { once } from 'node:events';
import { request, type IncomingMessage, type ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { NightshiftError } from '@nightshift/agent-core';
import { connect } from '@nightshift/db';
import { createPool, type PoolOptions } from '@nightshift/services';
import type { InjectOptions, LightMyRequestResponse } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { answerOf } from '../src/errors/answer-of.ts';
import { toProblem } from '../src/errors/problem.ts';
import { buildServer } from '../src/index.ts';
import { API_KEY, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

function failure(code: string, message = 'select secret from agent'): Error {
  return Object.assign(new Error(message), { code });
}

const bodyLimit = (): number => 1024;

describe('what went wrong below', () => {
  test.each([
    ['23505', 409, 'conflict', null],
    ['23503', 409, 'conflict', null],
    ['22021', 422, 'validation_failed', null],
    ['22P05', 422, 'validation_failed', null],
    ['22007', 422, 'validation_failed', null],
    ['22008', 422, 'validation_failed', null],
    ['22009', 422, 'validation_failed', null],
    ['40P01', 503, 'not_ready', 1],
    ['55P03', 503, 'not_ready', 1],
    ['57014', 503, 'not_ready', 1],
    ['25006', 503, 'database_unreachable', 1],
    ['08006', 503, 'database_unreachable', 1],
    ['53300', 503, 'database_unreachable', 1],
    ['57P01', 503, 'database_unreachable', 1],
    ['ECONNREFUSED', 503, 'database_unreachable', 1],
    ['42703', 500, 'internal', null],
  ])('%s is answered %i without its text', (code, status, name, retryAfterSeconds) => {
    const answer = answerOf(failure(code), bodyLimit);
    expect(answer).toMatchObject({ status, code: name, retryAfterSeconds });
    expect(JSON.stringify(answer)).not.toContain('secret');
  });

  test('a server without a free connection is reported, with max_connections as next step', () => {
    const problem = toProblem(answerOf(failure('53300'), bodyLimit), 'req');
    expect(problem.detail).toMatch(/no connection left\. .*max_connections/);
  });

  test.each([
    'Connection terminated unexpectedly',
    'timeout exceeded when trying to connect',
    'Query read timeout',
    'Client has encountered a connection error and is not queryable',
  ])('a connection lost without a code is 503: %s', (message) => {
    expect(answerOf(new Error(message), bodyLimit).code).toBe('database_unreachable');
  });

  test('an internal error is 500', () => {
    expect(answerOf(new NightshiftError('fenced', 'lease'), bodyLimit).status).toBe(500);
    expect(answerOf('thrown text', bodyLimit).status).toBe(500);
  });
});

/** Answers a request of a server with these time limits while a lock is held. */
async function answerWhileLocked(
  limits: Partial<PoolOptions>,
  lock: string,
  asked: InjectOptions,
): Promise<LightMyRequestResponse> {
  const db = connect(createPool({ url: api.database.url, max: 2, ...limits }));
  const app = buildServer({
    db,
    bell: { ring: () => Promise.resolve() },
    apiKey: API_KEY,
    model: 'simulator',
  });
  await app.ready();
  const holder = await api.database.pool.connect();
  await holder.query('begin');
  await holder.query(lock);
  const answer = await app.inject({ headers: { authorization: `Bearer ${API_KEY}` }, ...asked });
  await holder.query('rollback');
  holder.release();
  await app.close();
  await db.destroy();
  return answer;
}

test('a submission that waits too long for a busy row is 503 and may be retried', async () => {
  const agent_id = await createAgent(api);
  const answer = await answerWhileLocked({ lockTimeoutMs: 200 }, 'select id from conversation for update', {
    method: 'POST',
    url: '/v1/batches',
    payload: { requests: [{ agent_id, input: 'x' }] },
  });
  expect([answer.statusCode, answer.headers['retry-after'], answer.json().code]).toEqual([
    503,
    '1',
    'not_ready',
  ]);
});

test.each(['GET', 'HEAD'] as const)(
  'a list that is too slow for the database says so to %s, and is not retried',
  async (method) => {
    const answer = await answerWhileLocked({ statementTimeoutMs: 200 }, 'lock table run', {
      method,
      url: '/v1/runs?statuses=failed',
    });
    expect(answer.statusCode).toBe(504);
    expect([answer.headers['retry-after'], answer.headers['x-should-retry']]).toEqual([undefined, 'false']);
    if (method === 'HEAD') return;
    expect(answer.json().code).toBe('too_slow');
    expect(answer.json().detail).toMatch(/longer than 60 s for this request\. Narrow the request/);
  },
);

test.each([
  ['a batch', 'batch', `/v1/batches/job-${UNKNOWN_UUID}`],
  ['an agent', 'agent', `/v1/agents/agent-${UNKNOWN_UUID}`],
])('%s that the database does not answer in time may be retried', async (_what, table, url) => {
  const lock = `lock table ${table} in access exclusive mode`;
  const answer = await answerWhileLocked({ statementTimeoutMs: 200 }, lock, { method: 'GET', url });
  expect([answer.statusCode, answer.headers['retry-after'], answer.json().code]).toEqual([
    503,
    '1',
    'not_ready',
  ]);
});

/** Starts a server and collects its log lines. */
async function listenLogging() {
  const lines: { level: number; msg: string }[] = [];
  const app = buildServer({
    db: api.database.db,
    bell: { ring: () => Promise.resolve() },
    apiKey: API_KEY,
    model: 'simulator',
    logger: { level: 'info', stream: { write: (line) => lines.push(JSON.parse(line)) } },
  });
  return { app, address: await app.listen({ host: '127.0.0.1', port: 0 }), lines };
}

test('a client that disconnects during its body is logged at info, not as an error', async () => {
  const { app, address, lines } = await listenLogging();
  for (const path of ['/v1/blocks', '/v1/batches']) {
    for (const length of [{ 'content-length': '100' }, { 'transfer-encoding': 'chunked' }]) {
      lines.length = 0;
      const upload = request(new URL(path, address), {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...length },
      });
      upload.on('error', () => undefined);
      const arrived = once(app.server, 'request');
      upload.write('{');
      await arrived;
      upload.destroy();
      await expect.poll(() => lines.length).toBeGreaterThan(0);
      expect(lines.map(({ level, msg }) => [path, level, msg])).toEqual([[path, 30, 'client_gone']]);
    }
  }
  await app.close();
});

test('an internal error after the client disconnected is logged as an error', async () => {
  const { app, address, lines } = await listenLogging();
  const waiting = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const holder = await api.database.pool.connect();
  try {
    await holder.query('begin; lock table block in access exclusive mode');
    for (const [method, path, code] of [
      ['GET', '/v1/blocks', 'too_slow'],
      ['DELETE', `/v1/blocks/block-${UNKNOWN_UUID}`, 'not_ready'],
    ] as const) {
      lines.length = 0;
      const asking = request(new URL(path, address), {
        method,
        headers: { authorization: `Bearer ${API_KEY}` },
      });
      asking.on('error', () => undefined);
      const arrived = once(app.server, 'request');
      asking.end();
      const [, answer] = (await arrived) as [IncomingMessage, ServerResponse];
      const closed = once(answer, 'close');
      await expect.poll(async () => (await api.database.pool.query(`select ${waiting}`)).rowCount).toBe(1);
      asking.destroy();
      await closed;
      await api.database.pool.query(`select pg_cancel_backend(pid) ${waiting}`);
      await expect.poll(() => lines.length).toBeGreaterThan(0);
      expect(lines.map(({ level, msg }) => [method, level, msg])).toEqual([[method, 50, code]]);
    }
  } finally {
    holder.release(true);
    await app.close();
  }
});

test.each([
  ['NONSENSE', 400, /not HTTP/],
  [`GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(132_000)}`, 431, /URL and the headers/],
  [`GET /?x=${'x'.repeat(132_000)} HTTP/1.1\r\nHost: a`, 431, /URL and the headers/],
])('data that is not a request has the usual error form: %.8s', async (text, status, detail) => {
  const { app, address } = await listenLogging();
  const { hostname, port } = new URL(address);
  const socket = createConnection(Number(port), hostname);
  socket.end(`${text}\r\n\r\n`);
  const [head = '', body = ''] = (await readText(socket)).split('\r\n\r\n');
  expect(head).toContain('\r\nContent-Type: application/problem+json');
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(JSON.parse(body)).toMatchObject({
    status,
    code: 'invalid_argument',
    detail: expect.stringMatching(detail),
    request_id: /X-Request-Id: (.*)/.exec(head)?.[1],
  });
  await app.close();
});

test("a list of a thousand ids in a query is accepted, and its answer's headers fit the clients", async () => {
  const { app, address } = await listenLogging();
  const headers = { authorization: `Bearer ${API_KEY}` };
  const [tool] = (await api.call('GET', '/v1/tools?limit=1')).body;
  for (const [path, each, found] of [
    ['/v1/runs?', `agent_ids=agent-${UNKNOWN_UUID}`, 0],
    ['/v1/tools?limit=1&', `tool_ids=${tool.id}`, 1],
  ] as const) {
    const answer = await fetch(`${address}${path}${Array(1_000).fill(each).join('&')}`, { headers });
    expect([answer.status, await answer.json()]).toMatchObject([200, { length: found }]);
    expect(answer.headers.get('link')).toBeNull();
  }
  await app.close();
});

test('a badly encoded URL is 400', async () => {
  const answer = await api.call('GET', '/v1/agents/%zz');
  expect([answer.status, answer.body.code]).toEqual([400, 'invalid_argument']);
});

test('a URL with a part that is too long has the usual error form', async () => {
  const answer = await api.call('GET', `/v1/agents/${'a'.repeat(600)}`);
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(answer.body).toMatchObject({ detail: expect.any(String), request_id: expect.any(String) });
});

test.each([
  ['401', 'GET', '/v1/agents', undefined, { authorization: '' }],
  ['404', 'GET', '/v1/nothing', undefined, {}],
  ['404', 'GET', `/v1/agents/agent-${UNKNOWN_UUID}`, undefined, {}],
  ['405', 'PUT', '/v1/agents', {}, {}],
  ['413', 'POST', '/v1/blocks', JSON.stringify({ label: 'a', value: 'x'.repeat(17_000_000) }), {}],
  ['415', 'POST', '/v1/blocks', 'a', { 'content-type': 'text/plain' }],
  ['422', 'POST', '/v1/batches', {}, {}],
  ['422', 'POST', '/v1/batches', `${' '.repeat(100_000)}{}`, {}],
] as const)('an error %s of %s %s is a problem of RFC 9457', async (status, method, url, body, headers) => {
  const answer = await api.call(method, url, body, headers);
  expect([answer.status, answer.headers['content-type']]).toEqual([
    Number(status),
    'application/problem+json',
  ]);
  expect(answer.body).toMatchObject({ status: Number(status), errors_total: answer.body.errors.length });
});

test('errors beyond the first hundred are counted, and the error says so', async () => {
  const unknown = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`x${n}`, n]));
  const { body } = await api.call('POST', '/v1/blocks', { label: 'a', value: '', ...unknown });
  expect(body.errors).toHaveLength(100);
  expect(body.errors_total).toBe(150);
  expect(body.detail).toContain('`errors` names 100 of 150.');

  const requests = Array.from({ length: 120 }, () => ({ agent_id: `agent-${UNKNOWN_UUID}`, input: 'a' }));
  const batch = (await api.call('POST', '/v1/batches', { requests })).body;
  expect([batch.errors.length, batch.errors_total]).toEqual([100, 120]);
});

test('a request to a server that is shutting down is a problem too', async () => {
  const app = buildServer({
    db: api.database.db,
    bell: { ring: () => Promise.resolve() },
    apiKey: API_KEY,
    model: 'simulator',
  });
  const answers: Response[] = [];
  app.addHook('preClose', async () => {
    answers.push(await fetch(`${address}/v1/agents`));
  });
  const address = await app.listen({ host: '127.0.0.1', port: 0 });
  await app.close();
  expect(answers.map(({ status, headers }) => [status, headers.get('content-type')])).toEqual([
    [503, 'application/problem+json'],
  ]);
});
