import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  connect,
  createServer as createTcpServer,
  type AddressInfo,
  type Server as TcpServer,
} from 'node:net';
import { text } from 'node:stream/consumers';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import {
  createEgress,
  createGuardedFetch,
  EgressError,
  type EgressDialer,
  type EgressOptions,
} from '../src/index.ts';

/** A generous timeout, for a busy machine. */
const OPTIONS: EgressOptions = {
  allow_private: true,
  redirects_max: 3,
  answer_bytes_max: 1_000_000,
  timeout_ms: 60_000,
};
const egress = createEgress();

const servers: (Server | TcpServer)[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    if ('closeAllConnections' in server) server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
});

async function listen(server: Server | TcpServer): Promise<string> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a server and records its requests. */
async function serve(
  answer: RequestListener,
): Promise<{ readonly url: string; readonly seen: IncomingMessage[] }> {
  const seen: IncomingMessage[] = [];
  const host = await listen(
    createServer((request, response) => {
      seen.push(request);
      answer(request, response);
    }),
  );
  return { url: `http://${host}`, seen };
}

function get(url: string, options: Partial<EgressOptions> = {}, headers: Record<string, string> = {}) {
  return egress.request({ method: 'GET', url, headers }, { ...OPTIONS, ...options });
}

async function errorOf(work: Promise<unknown>): Promise<Partial<EgressError>> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(EgressError);
  const { code, sent, message } = error as EgressError;
  return { code, sent, message };
}

describe('a request', () => {
  test('has its method, headers and body, and its answer too', async () => {
    const { url } = await serve((request, response) => {
      response.writeHead(201, { 'X-Answer': 'yes', 'set-cookie': ['a=1', 'b=2'] });
      request.pipe(response);
    });
    const answer = await egress.request(
      { method: 'POST', url: `${url}/a?b=c`, headers: { 'X-Own': 'ü'.normalize() }, body: 'ünïcode' },
      OPTIONS,
    );
    expect(answer).toMatchObject({ status: 201, url: `${url}/a?b=c` });
    expect(answer.headers).toMatchObject({ 'x-answer': 'yes', 'set-cookie': 'a=1, b=2' });
    expect(await text(answer.body)).toBe('ünïcode');
  });

  test('asks for no compression and names its client', async () => {
    const { url, seen } = await serve((_, response) => response.end());
    await get(url, {}, { 'User-Agent': 'own' }).then((answer) => answer.close());
    await get(url).then((answer) => answer.close());
    expect(seen.map(({ headers }) => headers['user-agent'])).toEqual(['own', 'Nightshift']);
    expect(seen[0]!.headers['accept-encoding']).toBe('identity');
  });

  test.each([
    ['CONNECT', {}, 'CONNECT'],
    ['get', {}, 'get'],
    ['GET', { Host: 'other' }, 'Host'],
    ['POST', { 'Transfer-Encoding': 'chunked' }, 'Transfer-Encoding'],
    ['GET', { 'x-a': 'canary\r\nx-b: c' }, 'x-a'],
    ['GET', { 'x a': 'canary' }, 'x a'],
  ])('%s with %j is refused, and the error holds no value', async (method, headers, named) => {
    const { url, seen } = await serve((_, response) => response.end());
    const error = await errorOf(egress.request({ method, url, headers: headers }, OPTIONS));
    expect(error).toMatchObject({ code: 'refused', sent: false });
    expect(error.message).toContain(named);
    expect(error.message).not.toContain('canary');
    expect(seen).toEqual([]);
  });

  test('keeps to the allowed hosts', async () => {
    const { url, seen } = await serve((_, response) => response.end());
    const { host, port } = new URL(url);
    const asked = (allowed_hosts: readonly string[]) => get(url, { allowed_hosts });
    (await asked(['other.example', host])).close();
    for (const hosts of [[], ['127.0.0.1'], ['other.example'], [`*.127.0.0.1:${port}`]])
      expect(await errorOf(asked(hosts))).toMatchObject({ code: 'refused', sent: false });
    (await asked([`*.0.0.1:${port}`])).close();
    expect(seen).toHaveLength(2);
  });
});

describe('limits', () => {
  test('an answer has at most the allowed bytes', async () => {
    const { url } = await serve((_, response) => response.end('x'.repeat(1_000)));
    expect(await text((await get(url, { answer_bytes_max: 1_000 })).body)).toHaveLength(1_000);
    const { body } = await get(url, { answer_bytes_max: 999 });
    expect(await errorOf(text(body))).toMatchObject({ code: 'too_large', sent: true });
  });

  test('an endless answer ends at the limit', async () => {
    const { url } = await serve((_, response) => {
      const more = (): boolean | undefined => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
        return undefined;
      };
      response.on('drain', more);
      more();
    });
    expect(await errorOf(text((await get(url)).body))).toMatchObject({ code: 'too_large' });
  });

  test('an answer that never begins, or never ends, is over in time', async () => {
    const silent = await serve(() => undefined);
    expect(await errorOf(get(silent.url, { timeout_ms: 2_000 }))).toMatchObject({
      code: 'timed_out',
      sent: true,
    });
    const slow = await serve((_, response) => response.write('begun'));
    const { body } = await get(slow.url, { timeout_ms: 3_000 });
    expect(await errorOf(text(body))).toMatchObject({ code: 'timed_out', sent: true });
  });

  test('the caller ends a request, before and after its answer began', async () => {
    const aborter = new AbortController();
    const { url, seen } = await serve((_, response) => response.write('begun'));
    const { body } = await get(url, { signal: aborter.signal });
    aborter.abort();
    expect(await errorOf(text(body))).toMatchObject({ code: 'aborted' });
    expect(await errorOf(get(url, { signal: aborter.signal }))).toMatchObject({
      code: 'aborted',
      sent: false,
    });
    expect(seen).toHaveLength(1);
  });

  test('a broken connection is told apart from one that never was', async () => {
    const broken = await listen(createTcpServer((socket) => socket.once('data', () => socket.destroy())));
    expect(await errorOf(get(`http://${broken}/`))).toMatchObject({ code: 'unreachable', sent: true });
    const gone = createServer();
    const host = await listen(gone);
    servers.splice(0);
    gone.close();
    await once(gone, 'close');
    expect(await errorOf(get(`http://${host}/`))).toMatchObject({ code: 'unreachable', sent: false });
  });

  test('a switch to another protocol is an answer without a body', async () => {
    const { url } = await serve(({ socket }) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    );
    expect((await get(url)).status).toBe(101);
  });
});

describe('redirects', () => {
  /** Starts a server that redirects `/N` to `/N-1`, with `status`. */
  const countdown = (status: number) =>
    serve(({ url = '' }, response) => {
      const left = Number(url.slice(1));
      if (left === 0) response.end('done');
      else response.writeHead(status, { location: `/${left - 1}` }).end();
    });

  test('at most three are followed', async () => {
    const { url } = await countdown(302);
    const answer = await get(`${url}/3`);
    expect([answer.url, await text(answer.body)]).toEqual([`${url}/0`, 'done']);
    expect(await errorOf(get(`${url}/4`))).toMatchObject({ code: 'refused', sent: true });
  });

  test('none is followed where none is allowed, or where it leads nowhere', async () => {
    const { url } = await countdown(302);
    expect((await get(`${url}/1`, { redirects_max: 0 })).status).toBe(302);
    const lost = await serve((_, response) => response.writeHead(302).end());
    expect((await get(lost.url)).status).toBe(302);
  });

  test.each([
    ['POST', 301, 'GET', ''],
    ['POST', 302, 'GET', ''],
    ['PUT', 303, 'GET', ''],
    ['PUT', 302, 'PUT', 'body'],
    ['POST', 307, 'POST', 'body'],
    ['POST', 308, 'POST', 'body'],
    ['HEAD', 303, 'HEAD', ''],
  ])('%s and %i become %s', async (method, status, method_after, body_after) => {
    const { url, seen } = await serve((request, response) => {
      if (request.url === '/from') response.writeHead(status, { location: 'to' }).end();
      else request.pipe(response);
    });
    const headers = { 'content-type': 'text/plain', authorization: 'kept' };
    const body = method === 'HEAD' ? undefined : 'body';
    const answer = await egress.request({ method, url: `${url}/from`, headers, body }, OPTIONS);
    expect(await text(answer.body)).toBe(body_after);
    const [, after] = seen;
    expect(after!.method).toBe(method_after);
    expect(after!.headers.authorization).toBe('kept');
    expect(after!.headers['content-type']).toBe(method_after === 'GET' ? undefined : 'text/plain');
  });

  test('another host gets no header that may hold a secret', async () => {
    const other = await serve((_, response) => response.end());
    const { url } = await serve((_, response) => response.writeHead(307, { location: other.url }).end());
    const headers = {
      Authorization: 'Bearer canary',
      Cookie: 'canary',
      'X-Api-Key': 'canary',
      'Idempotency-Key': 'canary',
      Accept: 'text/plain',
    };
    (await get(url, {}, headers)).close();
    expect(other.seen[0]!.headers).toMatchObject({ accept: 'text/plain' });
    expect(JSON.stringify(other.seen[0]!.rawHeaders)).not.toContain('canary');
  });

  test('a failure after a redirect counts as sent', async () => {
    const { url } = await serve((_, response) => response.writeHead(302, { location: 'http://' }).end());
    expect(await errorOf(get(url))).toMatchObject({ code: 'refused', sent: true });
  });
});

describe('connections', () => {
  /** Approves a public address and leads to loopback. */
  const misled: EgressDialer = {
    resolve: (_, done) => process.nextTick(done, null, [{ address: '93.184.216.34', family: 4 }]),
    connect: ({ port }) => connect({ port: port, host: '127.0.0.1' }),
  };

  test.each(['http', 'https'])('a connection that ends inside carries no byte: %s', async (scheme) => {
    let bytes = 0;
    const host = await listen(
      createTcpServer((socket) => socket.on('data', (piece) => (bytes += piece.length))),
    );
    const url = `${scheme}://public.example:${new URL(`http://${host}`).port}/`;
    const asked = createEgress(misled).request(
      { method: 'GET', url, headers: {} },
      { ...OPTIONS, allow_private: false },
    );
    expect(await errorOf(asked)).toMatchObject({ code: 'private_address', sent: false });
    expect(bytes).toBe(0);
  });

  test.each(['http', 'https'])('a name that leads inside is refused: %s', async (scheme) => {
    const error = await errorOf(get(`${scheme}://localhost:9999/`, { allow_private: false }));
    expect(error).toMatchObject({ code: 'private_address', sent: false });
  });

  test.each(['http', 'https'])('a name without an address is unreachable: %s', async (scheme) => {
    const lost: EgressDialer = { ...misled, resolve: (_, done) => done(null, []), connect };
    const asked = createEgress(lost).request(
      { method: 'GET', url: `${scheme}://a.example/`, headers: {} },
      OPTIONS,
    );
    expect(await errorOf(asked)).toMatchObject({ code: 'unreachable', sent: false });
  });

  test('are reused only where asked, and never across policies', async () => {
    const sockets: unknown[] = [];
    const { url } = await serve(({ socket }, response) => {
      sockets.push(socket.remotePort);
      response.end('x');
    });
    const named: EgressDialer = {
      resolve: (_, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
      connect,
    };
    const client = createEgress(named);
    const ask = async (options: Partial<EgressOptions>): Promise<void> => {
      const target = url.replace('127.0.0.1', 'a.example');
      const answer = await client.request(
        { method: 'GET', url: target, headers: {} },
        { ...OPTIONS, ...options },
      );
      await text(answer.body);
    };
    for (const keep_alive of [true, true, false, false]) await ask({ keep_alive });
    expect(sockets[0]).toBe(sockets[1]);
    expect(new Set(sockets).size).toBe(3);
    expect(await errorOf(ask({ keep_alive: true, allow_private: false }))).toMatchObject({
      code: 'private_address',
    });
  });

  test('share the lookup of a name', async () => {
    const { url } = await serve((_, response) => response.end('x'));
    const lookups: string[] = [];
    const client = createEgress({
      resolve: (hostname, done) => {
        lookups.push(hostname);
        setImmediate(done, null, [{ address: '127.0.0.1', family: 4 }]);
      },
      connect,
    });
    const ask = async (name: string): Promise<string> => {
      const target = url.replace('127.0.0.1', name);
      return text((await client.request({ method: 'GET', url: target, headers: {} }, OPTIONS)).body);
    };
    await Promise.all(['a.example', 'a.example', 'b.example', 'a.example'].map(ask));
    expect(lookups).toEqual(['a.example', 'b.example']);
    await ask('a.example');
    expect(lookups).toHaveLength(3);
  });

  test('TLS is checked against the name', async () => {
    const pem = (name: string) =>
      readFileSync(new URL(`fixtures/localhost-${name}.pem`, import.meta.url), 'utf8');
    const secure = createSecureServer({ key: pem('key'), cert: pem('cert') }, (_, response) =>
      response.end('secure'),
    );
    const port = (await listen(secure)).split(':')[1]!;
    expect(await errorOf(get(`https://localhost:${port}/`))).toMatchObject({
      code: 'unreachable',
      sent: false,
    });

    const usual = getCACertificates('default');
    setDefaultCACertificates([...usual, pem('cert')]);
    const answer = await get(`https://localhost:${port}/`);
    expect(await text(answer.body)).toBe('secure');
    const dialer: EgressDialer = {
      resolve: (_, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
      connect,
    };
    const wrong = createEgress(dialer).request(
      { method: 'GET', url: `https://other.example:${port}/`, headers: {} },
      OPTIONS,
    );
    expect(await errorOf(wrong)).toMatchObject({ code: 'unreachable', sent: false });
    setDefaultCACertificates(usual);
  });
});

describe('the guarded fetch', () => {
  const guardedFetch = createGuardedFetch(egress, OPTIONS);

  test('streams the answer while it comes', async () => {
    const { url, seen } = await serve((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      request.on('close', () => response.end());
    });
    const response = await guardedFetch(new URL(url), {
      method: 'POST',
      body: '{}',
      headers: { 'x-a': 'b' },
    });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const reader = response.body!.getReader();
    expect(Buffer.from((await reader.read()).value).toString()).toBe('data: 1\n\n');
    await reader.cancel();
    expect(seen[0]!.headers).toMatchObject({ 'x-a': 'b', 'content-length': '2' });
  });

  test('knows answers without a body, and redirects that are not followed', async () => {
    const { url } = await serve((request, response) =>
      request.url === '/empty'
        ? response.writeHead(204).end()
        : response.writeHead(302, { location: '/empty' }).end(),
    );
    expect((await guardedFetch(`${url}/`)).status).toBe(204);
    expect((await guardedFetch(`${url}/`, { redirect: 'manual' })).status).toBe(302);
  });

  test("throws the signal's own reason", async () => {
    const { url } = await serve(() => undefined);
    const aborter = new AbortController();
    const asked = guardedFetch(url, { signal: aborter.signal });
    aborter.abort(new Error('own reason'));
    await expect(asked).rejects.toThrow('own reason');
    await expect(guardedFetch('http://127.0.0.1:22/')).rejects.toThrow('port 22');
  });
});
