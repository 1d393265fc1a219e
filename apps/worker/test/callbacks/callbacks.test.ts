import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import type {} from '../../../../test/global-setup.ts';
import { LOOPBACK_URLS, openHostileNet } from '../../../../libs/egress/test/hostile-urls.ts';
import { postCallback } from '../../src/callbacks/post-callback.ts';
import { deliverWebhooks } from '../../src/flows/deliver-webhooks/deliver-webhooks.ts';
import { openHouse, type House } from '../flows/house.ts';

interface Received {
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Starts a receiver that answers with the given statuses in turn and records the requests. */
async function startReceiver(
  ...statuses: number[]
): Promise<{ readonly url: string; readonly received: Received[]; readonly server: Server }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      received.push({ headers: request.headers, body });
      response.writeHead(statuses[received.length - 1] ?? 200, { location: 'http://127.0.0.1:1/' }).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received, server };
}

/** A generous timeout, for a busy machine. */
const OPTIONS = { allow_private: true, timeout_ms: 60_000 };
const callback = { id: 'job-1', url: 'http://127.0.0.1:9/', body: '{}', timestamp: 1_700_000_000 };

describe('a private address is not called', () => {
  test.each([
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://0177.0.0.1/',
    'http://127.1/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://0/',
    'http://①②⑦.⓪.⓪.①/',
    'http://169.254.169.254/latest',
    'http://10.1.2.3/',
    'http://172.16.0.1/',
    'http://192.168.1.1/',
    'http://100.64.0.1/',
    'http://[fd00::1]/',
    'http://[fe80::1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://[64:ff9b:1::a00:1]/',
    'http://[::ffff:0:7f00:1]/',
    'http://[::7f00:1]/',
    'http://[::a9fe:a9fe]/',
    'http://[fec0::1]/',
    'http://localhost/',
  ])('%s', async (url) => {
    const outcome = await postCallback({ ...callback, url }, { ...OPTIONS, allow_private: false });
    expect(outcome).toMatchObject({ kind: 'unreachable', permanent: true });
  });
});

test('no spelling of loopback reaches a receiver', async () => {
  const net = await openHostileNet();
  for (const hostile of LOOPBACK_URLS) {
    const url = net.urlOf(hostile);
    const outcome = await postCallback({ ...callback, url }, { ...OPTIONS, allow_private: false });
    expect([hostile.name, outcome]).toMatchObject([hostile.name, { kind: 'unreachable', permanent: true }]);
  }
  expect(net.breaches()).toEqual([]);
  await net.close();
});

describe('one delivery', () => {
  test('is signed over id, time and body', async () => {
    const receiver = await startReceiver(204);
    const secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
    const outcome = await postCallback({ ...callback, url: receiver.url }, { ...OPTIONS, secret });
    expect(outcome).toEqual({ kind: 'answered', status: 204 });
    const [got] = receiver.received;
    const expected = createHmac('sha256', '0123456789abcdef0123456789abcdef')
      .update('job-1.1700000000.{}')
      .digest('base64');
    expect(got?.headers).toMatchObject({ 'webhook-id': 'job-1', 'webhook-signature': `v1,${expected}` });
    receiver.server.close();
  });

  test('does not follow a redirect', async () => {
    const receiver = await startReceiver(302);
    expect(await postCallback({ ...callback, url: receiver.url }, OPTIONS)).toEqual({
      kind: 'answered',
      status: 302,
    });
    receiver.server.close();
  });

  test('ends when the receiver switches to another protocol', async () => {
    const server = createServer(({ socket }) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect(await postCallback({ ...callback, url }, OPTIONS)).toEqual({
      kind: 'answered',
      status: 101,
    });
    server.closeAllConnections();
    server.close();
  });

  test.each(['https://%E0%A4%A@example.com/', 'http://', 'no URL'])(
    'to %s is refused, not thrown',
    async (url) => {
      const outcome = await postCallback({ ...callback, url }, OPTIONS);
      expect(outcome).toMatchObject({ kind: 'unreachable', permanent: true });
    },
  );

  test('times out when the receiver never answers', async () => {
    const server = createServer(() => undefined);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect(await postCallback({ ...callback, url }, { ...OPTIONS, timeout_ms: 100 })).toMatchObject({
      kind: 'unreachable',
      permanent: false,
    });
    server.closeAllConnections();
    server.close();
  });
});

/** Posts from a process with proxy variables and returns the outcome. */
async function postBesideProxy(url: string, proxy: string, allow_private: boolean): Promise<unknown> {
  const program = `
    import { postCallback } from '${new URL('../../src/callbacks/post-callback.ts', import.meta.url).href}';
    const outcome = await postCallback(${JSON.stringify({ ...callback, url })}, {
      allow_private: ${allow_private},
      timeout_ms: 10_000,
    });
    console.log(JSON.stringify(outcome));`;
  const told = { NODE_USE_ENV_PROXY: '1', http_proxy: proxy, https_proxy: proxy, no_proxy: '', NO_PROXY: '' };
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...told },
  });
  return JSON.parse(await text(child.stdout));
}

describe('a callback bypasses a configured proxy', () => {
  let seen: string[];
  let proxy: Server;
  beforeAll(async () => {
    proxy = createServer((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      response.writeHead(502).end();
    });
    proxy.on('connect', ({ url = '' }: IncomingMessage, socket: Duplex) => {
      seen.push(`CONNECT ${url}`);
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
  });
  beforeEach(() => {
    seen = [];
  });
  afterAll(() => proxy.close());
  const proxyUrl = (): string => `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;

  test.each(['http', 'https'])('and is not sent to a private %s address', async (scheme) => {
    expect(await postBesideProxy(`${scheme}://localhost:9999/`, proxyUrl(), false)).toEqual({
      kind: 'unreachable',
      reason: expect.stringContaining('private network') as string,
      permanent: true,
    });
    expect(seen).toEqual([]);
  });

  test('and reaches its receiver', async () => {
    const receiver = await startReceiver(204);
    expect(await postBesideProxy(receiver.url, proxyUrl(), true)).toEqual({ kind: 'answered', status: 204 });
    expect(receiver.received).toHaveLength(1);
    expect(seen).toEqual([]);
    receiver.server.close();
  });
});

describe('the callback of a batch', () => {
  let house: House;
  beforeAll(async () => {
    house = await openHouse(inject('postgresUrl'));
  });
  afterAll(() => house.close());
  afterEach(() =>
    house.database.pool.query(`update batch set next_due_at = null where completed_at is not null`),
  );

  const endedBatch = async (url: string): Promise<string> => {
    const { id } = await house.submit([{ input: 'hello' }]);
    await house.database.pool.query('update batch set callback_url = $2 where id = $1', [id, url]);
    await house.drive(house.worker());
    return id;
  };

  test('is delivered once, with the fields that Letta sends', async () => {
    const receiver = await startReceiver(200);
    const id = await endedBatch(receiver.url);
    const worker = house.worker();
    const callbacks = { post: (one: Parameters<typeof postCallback>[0]) => postCallback(one, OPTIONS) };
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ worked: true, delivered: true });
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ worked: false });
    expect(receiver.received).toHaveLength(1);
    expect(JSON.parse(receiver.received[0]?.body ?? '')).toEqual({
      job_id: `job-${id}`,
      status: 'completed',
      completed_at: expect.stringMatching(/Z$/),
      metadata: null,
      state: 'completed',
      counts: { total: 1, completed: 1, failed: 0, cancelled: 0, expired: 0 },
    });
    const [row] = await house.rows(
      'select callback_status_code, callback_sent_at is not null as sent, callback_error from batch where id = $1',
      [id],
    );
    expect(row).toEqual({ callback_status_code: 200, sent: true, callback_error: null });
    receiver.server.close();
  });

  test('is delivered for a cancelled batch, and not without a callback URL', async () => {
    const receiver = await startReceiver(200);
    const worker = house.worker();
    const callbacks = { post: (one: Parameters<typeof postCallback>[0]) => postCallback(one, OPTIONS) };
    const { id } = await house.submit([{ input: 'hello' }]);
    await house.submit([{ input: 'hello' }]);
    await house.database.pool.query('update batch set callback_url = $2 where id = $1', [id, receiver.url]);
    await house.cancel(id);
    await house.drive(worker);
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ delivered: true });
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ worked: false });
    expect(receiver.received.map(({ body }) => JSON.parse(body) as object)).toMatchObject([
      { job_id: `job-${id}`, status: 'cancelled' },
    ]);
    receiver.server.close();
  });

  test('is retried with the same id when the receiver fails', async () => {
    const receiver = await startReceiver(500, 200);
    const id = await endedBatch(receiver.url);
    const worker = house.worker();
    const callbacks = { post: (one: Parameters<typeof postCallback>[0]) => postCallback(one, OPTIONS) };
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ delivered: false, status: 500 });
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ worked: false });
    await house.database.pool.query('update batch set next_due_at = app_now() where id = $1', [id]);
    expect(await deliverWebhooks({ ...worker, callbacks })).toMatchObject({ delivered: true });
    expect(new Set(receiver.received.map((one) => one.headers['webhook-id']))).toEqual(
      new Set([`job-${id}`]),
    );
    receiver.server.close();
  });
});
