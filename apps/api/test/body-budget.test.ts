import { once } from 'node:events';
import { request, type IncomingMessage, type ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { PassThrough } from 'node:stream';
import { inTransaction, lockIdempotencyKey } from '@nightshift/db';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBudget } from '../src/body-budget.ts';
import { buildServer } from '../src/index.ts';
import { BODY_LIMIT_BYTES } from '../src/json-body.ts';
import { API_KEY, countRows, createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let app: ReturnType<typeof buildServer>;
let address: string;
beforeAll(async () => {
  api = await openApi();
  app = buildServer({
    db: api.database.db,
    bell: { ring: () => Promise.resolve() },
    apiKey: API_KEY,
    model: 'simulator',
    bodyBytesMax: 1_000,
  });
  address = await app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await app.close();
  await api.close();
});

const bodyOf = (bytes: number): string => JSON.stringify({ label: 'a', value: 'x'.repeat(bytes) });

/** Starts a request with an incomplete body; `end` sends the rest. */
function begin(head: string, rest: string, headers: Record<string, string>) {
  const payload = new PassThrough();
  payload.write(head);
  const answer = app.inject({
    method: 'POST',
    url: '/v1/blocks',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...headers },
    payload,
  });
  return { answer: answer.then((given) => given), end: () => payload.end(rest) };
}

const post = (bytes: number, key = API_KEY) =>
  app.inject({
    method: 'POST',
    url: '/v1/blocks',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    payload: bodyOf(bytes),
  });

const chunk = (bytes: number): string => `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;

/** Framing of a body without a length. */
const CHUNKED = 'Transfer-Encoding: chunked';

/** Opens a connection and starts a request with an incomplete body of unknown length, unless the framing gives it. */
async function beginBody(
  method: string,
  type: string,
  { path = '/v1/blocks', framing = CHUNKED, first = '' } = {},
) {
  const { hostname, port } = new URL(address);
  const socket = createConnection(Number(port), hostname);
  socket.on('error', () => undefined);
  let said = '';
  socket.setEncoding('utf8').on('data', (text: string) => (said += text));
  const arrived = once(app.server, 'request');
  socket.write(
    `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${API_KEY}\r\n` +
      `Content-Type: ${type}\r\n${framing}\r\n\r\n${first}`,
  );
  const [asked, answer] = (await arrived) as [IncomingMessage, ServerResponse];
  return {
    socket,
    answer,
    closed: new Promise((resolve) => asked.socket.once('close', resolve)),
    statuses: () => [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)),
  };
}

/** Returns unhandled errors during the work; each would end the API process. */
async function uncaughtDuring(work: () => Promise<void>): Promise<readonly unknown[]> {
  const uncaught: unknown[] = [];
  const note = (error: unknown): void => void uncaught.push(error);
  process.on('uncaughtException', note);
  try {
    await work();
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('uncaughtException', note);
  }
  return uncaught;
}

test('shares stay within the budget, except for a single share', () => {
  const open = createBudget(100);
  const [first, second, third] = [open(), open(), open()];
  expect(first.take(150)).toBe(true);
  expect(second.take(1)).toBe(false);
  expect(first.take(50)).toBe(true);
  first.giveBack();
  first.giveBack();
  expect(first.take(1)).toBe(false);
  expect(second.take(60)).toBe(true);
  expect(third.take(41)).toBe(false);
  expect(third.take(40)).toBe(true);
  expect(second.take(1)).toBe(false);
});

test('a body beyond the budget is 503 and may be retried', async () => {
  const body = bodyOf(600);
  for (const headers of [{ 'content-length': String(body.length) }, { 'transfer-encoding': 'chunked' }]) {
    const slow = begin(body.slice(0, 600), body.slice(600), headers);
    await new Promise((resolve) => setImmediate(resolve));
    await expect.poll(async () => (await post(500)).statusCode).toBe(503);
    const refused = await post(500);
    expect([refused.statusCode, refused.headers['retry-after'], refused.json().code]).toEqual([
      503,
      '1',
      'not_ready',
    ]);
    expect((await post(100)).statusCode).toBe(200);
    expect((await post(500, 'stranger')).statusCode).toBe(401);
    slow.end();
    expect((await slow.answer).statusCode).toBe(200);
    expect((await post(500)).statusCode).toBe(200);
  }
});

test('a body of unknown length is refused at the end of the budget', async () => {
  const body = bodyOf(600);
  const first = begin(body.slice(0, 600), body.slice(600), { 'content-length': String(body.length) });
  const second = begin(body.slice(0, 300), body.slice(300), { 'transfer-encoding': 'chunked' });
  second.end();
  expect((await second.answer).statusCode).toBe(503);
  first.end();
  expect((await first.answer).statusCode).toBe(200);
});

test('a body larger than the budget runs alone', async () => {
  expect((await post(5_000)).statusCode).toBe(200);
});

test('a request with an empty body runs beside a body larger than the budget', async () => {
  const body = bodyOf(5_000);
  const slow = begin(body.slice(0, 600), body.slice(600), { 'content-length': String(body.length) });
  await expect.poll(async () => (await post(500)).statusCode).toBe(503);
  const url = `/v1/blocks/block-${UNKNOWN_UUID}`;
  for (const length of [{}, { 'content-length': '0' }]) {
    const headers = { authorization: `Bearer ${API_KEY}`, ...length };
    expect((await app.inject({ method: 'DELETE', url, headers })).statusCode).toBe(404);
  }
  slow.end();
  expect((await slow.answer).statusCode).toBe(200);
});

test('an aborted request returns its bytes', async () => {
  const upload = request(new URL('/v1/blocks', address), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${API_KEY}`,
      'content-type': 'application/json',
      'content-length': '950',
    },
  });
  const gone = once(upload, 'error');
  const arrived = once(app.server, 'request');
  upload.write(bodyOf(900).slice(0, 900));
  await arrived;
  await expect.poll(async () => (await post(500)).statusCode).toBe(503);
  upload.destroy(new Error('gone'));
  await gone;
  await expect.poll(async () => (await post(500)).statusCode).toBe(200);
});

test('an aborted request keeps its bytes until its handler ends', async () => {
  await inTransaction(api.database.db, async (trx) => {
    await lockIdempotencyKey(trx, PROJECT_ID, 'key:again');
    const waiting = request(new URL('/v1/batches', address), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'content-type': 'application/json',
        'idempotency-key': 'again',
      },
    });
    waiting.on('error', () => undefined);
    const arrived = once(app.server, 'request');
    waiting.end(
      JSON.stringify({ requests: [{ agent_id: `agent-${UNKNOWN_UUID}`, input: 'x'.repeat(600) }] }),
    );
    const [, answer] = (await arrived) as [IncomingMessage, ServerResponse];
    await expect
      .poll(
        async () =>
          (
            await api.database.pool.query(
              `select from pg_locks where locktype = 'advisory' and not granted
                  and database = (select oid from pg_database where datname = current_database())`,
            )
          ).rowCount,
      )
      .toBe(1);
    const closed = once(answer, 'close');
    waiting.destroy();
    await closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect((await post(500)).statusCode).toBe(503);
  });
  await expect.poll(async () => (await post(500)).statusCode).toBe(200);
});

test('a body whose values exceed the budget is 503 beside others, and runs alone', async () => {
  const create = () =>
    app.inject({
      method: 'POST',
      url: '/v1/blocks',
      headers: { authorization: `Bearer ${API_KEY}` },
      payload: { label: 'a', value: '', metadata: { many: Array.from({ length: 50 }, () => ({})) } },
    });
  const body = bodyOf(600);
  const slow = begin(body.slice(0, 600), body.slice(600), { 'content-length': String(body.length) });
  await expect.poll(async () => (await post(500)).statusCode).toBe(503);
  const refused = await create();
  expect([refused.statusCode, refused.json().code]).toEqual([503, 'not_ready']);
  expect((await post(100)).statusCode).toBe(200);
  slow.end();
  expect((await slow.answer).statusCode).toBe(200);
  expect((await create()).statusCode).toBe(200);
  expect((await create()).statusCode).toBe(200);
});

test.each(['/v1/batches', '/v1/batches/estimate'])(
  'rendered templates count for the budget, or are 503 and may be retried: %s',
  async (url) => {
    const agent_id = await createAgent(api);
    const fill = (times: number) => {
      const input = `{% for i in (1..${times}) %}ab{% endfor %}`;
      const payload = { template: { agent_id, input }, inputs: [{ custom_id: 'a', variables: {} }] };
      return app.inject({ method: 'POST', url, headers: { authorization: `Bearer ${API_KEY}` }, payload });
    };
    const body = bodyOf(400);
    const slow = begin(body.slice(0, 400), body.slice(400), { 'content-length': String(body.length) });
    await expect.poll(async () => (await post(600)).statusCode).toBe(503);
    expect((await fill(1)).statusCode).toBe(200);
    const before = await countRows(api);
    const refused = await fill(200);
    expect([refused.statusCode, refused.headers['retry-after'], refused.json().code]).toEqual([
      503,
      '1',
      'not_ready',
    ]);
    expect(await countRows(api)).toEqual(before);
    expect((await post(100)).statusCode).toBe(200);
    slow.end();
    expect((await slow.answer).statusCode).toBe(200);
    expect((await fill(200)).statusCode).toBe(200);
  },
);

test('a rendered template larger than the budget runs alone and returns its bytes', async () => {
  const input = '{% for i in (1..1000) %}ab{% endfor %}';
  const answer = await app.inject({
    method: 'POST',
    url: '/v1/batches',
    headers: { authorization: `Bearer ${API_KEY}` },
    payload: {
      template: { agent_id: await createAgent(api), input },
      inputs: ['a', 'b'].map((custom_id) => ({ custom_id, variables: {} })),
    },
  });
  expect(answer.statusCode).toBe(200);
  const body = bodyOf(600);
  const slow = begin(body.slice(0, 600), body.slice(600), { 'content-length': String(body.length) });
  await expect.poll(async () => (await post(500)).statusCode).toBe(503);
  expect((await post(100)).statusCode).toBe(200);
  slow.end();
  expect((await slow.answer).statusCode).toBe(200);
});

test('requests without a key take no bytes and are answered before their bodies', async () => {
  for (const [method, path, status] of [
    ['POST', '/v1/nothing', 404],
    ['PUT', '/v1/blocks', 405],
    ['POST', '/v1/blocks', 401],
    ['GET', '/livez', 200],
  ] as const) {
    for (const length of [{ 'content-length': '950' }, { 'transfer-encoding': 'chunked' }]) {
      const stranger = request(new URL(path, address), {
        method,
        headers: { 'content-type': 'application/json', ...length },
      });
      stranger.on('error', () => undefined);
      stranger.write(bodyOf(900).slice(0, 900));
      const [answer] = (await once(stranger, 'response')) as [IncomingMessage];
      expect([path, answer.statusCode, (await post(500)).statusCode]).toEqual([path, status, 200]);
      stranger.destroy();
    }
  }
});

test.each([
  ['GET', 'application/json', 200, 10],
  ['GET', 'application/json', 200, 200_000],
  ['POST', 'text/plain', 415, 10],
  ['POST', 'text/plain', 415, 200_000],
])(
  'the rest of an unread body is discarded and the next request served: %s of %s, %i, %i bytes',
  async (method, type, status, bytes) => {
    const uncaught = await uncaughtDuring(async () => {
      const { socket, statuses } = await beginBody(method, type);
      socket.write(chunk(bytes));
      await expect.poll(statuses).toEqual([status]);
      socket.write(chunk(bytes));
      socket.write('0\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n');
      await expect.poll(statuses).toEqual([status, 200]);
      socket.destroy();
    });
    expect(uncaught).toEqual([]);
  },
);

test.each([
  ['of known length', 10],
  ['of known length', 200_000],
  ['of unknown length', 200_000],
])(
  'the rest of a batch with a wrong type is discarded and the next request served: %s, %i bytes',
  async (length, bytes) => {
    const isKnown = length === 'of known length';
    const half = isKnown ? 'x'.repeat(bytes) : chunk(bytes);
    const uncaught = await uncaughtDuring(async () => {
      const { socket, statuses } = await beginBody('POST', 'text/plain', {
        path: '/v1/batches',
        framing: isKnown ? `Content-Length: ${2 * bytes}` : CHUNKED,
      });
      socket.write(half);
      await expect.poll(statuses).toEqual([415]);
      socket.write(half);
      socket.write(`${isKnown ? '' : '0\r\n\r\n'}GET /livez HTTP/1.1\r\nHost: a\r\n\r\n`);
      await expect.poll(statuses).toEqual([415, 200]);
      socket.destroy();
    });
    expect(uncaught).toEqual([]);
  },
);

test.each([
  ['GET', 'application/json'],
  ['POST', 'text/plain'],
  ['POST', 'application/json'],
])('a client that disconnects during a body ends only its request: %s of %s', async (method, type) => {
  const uncaught = await uncaughtDuring(async () => {
    const { socket, closed } = await beginBody(method, type);
    socket.write(chunk(10));
    socket.destroy();
    await closed;
  });
  expect(uncaught).toEqual([]);
});

test.each(['text/plain', 'application/json'])(
  'a client that disconnects during a batch ends only its request: %s',
  async (type) => {
    const uncaught = await uncaughtDuring(async () => {
      const { socket, closed } = await beginBody('POST', type, {
        path: '/v1/batches',
        framing: 'Content-Length: 200000',
      });
      socket.write('x'.repeat(10));
      socket.destroy();
      await closed;
    });
    expect(uncaught).toEqual([]);
  },
);

test('an unread body beyond the budget ends only its request', async () => {
  const body = bodyOf(900);
  const slow = begin(body.slice(0, 600), body.slice(600), { 'content-length': String(body.length) });
  await expect.poll(async () => (await post(500)).statusCode).toBe(503);
  const uncaught = await uncaughtDuring(async () => {
    const { socket, statuses } = await beginBody('POST', 'text/plain', { first: chunk(500) });
    await expect.poll(statuses).toEqual([415]);
    socket.destroy();
  });
  expect(uncaught).toEqual([]);
  slow.end();
  expect((await slow.answer).statusCode).toBe(200);
});

test("a body of unknown length above its route's limit ends only its connection", async () => {
  const uncaught = await uncaughtDuring(async () => {
    const { socket, answer, closed } = await beginBody('POST', 'application/json');
    socket.write(chunk(BODY_LIMIT_BYTES + 1));
    socket.write(chunk(BODY_LIMIT_BYTES));
    await closed;
    expect(answer.statusCode).toBe(413);
  });
  expect(uncaught).toEqual([]);
  await expect.poll(async () => (await post(500)).statusCode).toBe(200);
});
