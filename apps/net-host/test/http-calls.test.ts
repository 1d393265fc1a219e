import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startNetHost, type NetHost } from '../src/index.ts';
import { fetchCall, httpCall, serve } from './support/net-hosts.ts';

let host: NetHost;
const log: string[] = [];
beforeAll(async () => {
  host = await startNetHost({ onLog: (line) => log.push(line) });
});
afterAll(() => host.close());

/** Answers with each status in turn; the last one again and again. */
function inTurn(...answers: readonly (readonly [status: number, headers?: Record<string, string>])[]) {
  let asked = 0;
  return serve((_, response) => {
    const [status, headers = {}] = answers[Math.min(asked++, answers.length - 1)]!;
    response.writeHead(status, headers).end(`answer ${asked}`);
  });
}

describe('an HTTP tool', () => {
  test('is one request, whose result is a part of its answer', async () => {
    const { url, seen } = await serve((request, response) => {
      request.setEncoding('utf8').on('data', (body: string) => {
        response.end(JSON.stringify({ items: [{ echo: JSON.parse(body) as unknown }] }));
      });
    });
    const call = httpCall(
      {
        method: 'POST',
        url: `${url}/users/{{id}}`,
        query: { q: '{{id}}' },
        headers: { Authorization: 'Bearer {{secrets.KEY}}' },
        body: { id: '{{id}}' },
        result: '/items/0/echo',
      },
      { arguments: { id: 'a/b' }, secrets: { KEY: 'canary-key' } },
    );
    expect(await host.runCall(call)).toEqual({
      call_id: call.call_id,
      status: 'succeeded',
      result: '{"id":"a/b"}',
      truncated: false,
      duration_ms: expect.any(Number) as number,
      started: true,
      attempts: 1,
      answer_bytes: 33,
    });
    const [request] = seen;
    expect(request).toMatchObject({ method: 'POST', url: '/users/a%2Fb?q=a%2Fb' });
    expect(request!.headers).toMatchObject({
      authorization: 'Bearer canary-key',
      'idempotency-key': call.idempotency_key,
      'content-type': 'application/json',
    });
  });

  test('has its result cut', async () => {
    const { url } = await serve((_, response) => response.end('x'.repeat(500)));
    const reply = await host.runCall(httpCall({ url }, { result_char_limit: 100 }));
    expect(reply).toMatchObject({ status: 'succeeded', truncated: true, answer_bytes: 500 });
    expect(reply.result).toMatch(/^x{100}\.\.\. \[NOTE: .*500 > 100/);
  });

  test.each([
    [400, 'HTTP 400 Bad Request: answer 1'],
    [500, 'HTTP 500 Internal Server Error: answer 1'],
    [599, 'HTTP 599: answer 1'],
  ])('fails with %i and the start of the answer, without a repeat', async (status, result) => {
    const { url } = await inTurn([status]);
    expect(await host.runCall(httpCall({ url }))).toMatchObject({
      status: 'failed',
      result,
      attempts: 1,
      started: true,
    });
  });

  test('fails with a long answer cut', async () => {
    const { url } = await serve((_, response) => response.writeHead(404).end('y'.repeat(5_000)));
    const { result } = await host.runCall(httpCall({ url }));
    expect(result).toMatch(/^HTTP 404 Not Found: y{1000}…$/);
  });

  test('fails for an answer without its result', async () => {
    const { url } = await serve((_, response) => response.end('<html>'));
    const reply = await host.runCall(httpCall({ url, result: '/a' }));
    expect(reply).toMatchObject({ status: 'failed', result: 'the answer is not JSON; it begins: <html>' });
  });

  test('fails for an answer of more than a megabyte', async () => {
    const { url } = await serve((_, response) => response.end('x'.repeat(1024 * 1024 + 1)));
    const { status, result } = await host.runCall(httpCall({ url }));
    expect([status, result]).toEqual([
      'failed',
      'the answer has more than 1048576 bytes; ask for a smaller part',
    ]);
  });

  test.each([
    [
      'has more than a megabyte',
      200,
      {},
      'x'.repeat(1024 * 1024 + 1),
      'the answer has more than 1048576 bytes',
    ],
    [
      'leads to a refused address',
      303,
      { location: 'ftp://a.example/' },
      '',
      'the request was refused: after a redirect',
    ],
  ])(
    'that must not be repeated may have taken effect when its answer %s',
    async (_, status, headers, body, text) => {
      const { url } = await serve((_, response) => response.writeHead(status, headers).end(body));
      const reply = await host.runCall(httpCall({ method: 'POST', url }, { side_effects: 'once' }));
      expect(reply).toMatchObject({ status: 'crashed', started: true, attempts: 1 });
      expect(reply.result).toContain(text);
      expect(reply.result).not.toContain('ask for');
    },
  );

  test('is not started for arguments that do not fit', async () => {
    const { url, seen } = await serve((_, response) => response.end());
    const reply = await host.runCall(httpCall({ url: `${url}/a/{{id}}` }, { arguments: { id: '..' } }));
    expect(reply).toMatchObject({ status: 'failed', started: false, attempts: 0 });
    expect(reply.result).toContain("the argument 'id'");
    expect(seen).toEqual([]);
  });

  test('ends at its timeout', async () => {
    const { url } = await serve(() => undefined);
    const reply = await host.runCall(httpCall({ url }, { timeout_ms: 3_000 }));
    expect(reply).toMatchObject({ status: 'timed_out', started: true, attempts: 1 });
  });
});

describe('repeats', () => {
  test.each(['none', 'idempotent'] as const)('a call with effect %s, under its key', async (side_effects) => {
    const { url, seen } = await inTurn([503], [429, { 'retry-after': '0' }], [200]);
    const call = httpCall({ url }, { side_effects });
    expect(await host.runCall(call)).toMatchObject({ status: 'succeeded', result: 'answer 3', attempts: 3 });
    expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(
      Array(3).fill(call.idempotency_key),
    );
  });

  test.each([502, 503, 504, 429])('at most three times for %i', async (status) => {
    const { url } = await inTurn([status]);
    expect(await host.runCall(httpCall({ url }))).toMatchObject({ status: 'failed', attempts: 3 });
  });

  test('a broken connection', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.once('data', () =>
        connections === 1 ? socket.destroy() : socket.end('HTTP/1.1 204 No Content\r\n\r\n'),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect(await host.runCall(httpCall({ url }))).toMatchObject({
      status: 'succeeded',
      attempts: 2,
      started: true,
    });
    server.close();
  });

  test('a sent request without an answer is broken off, not failed: it may have taken effect', async () => {
    const server = createServer((socket) => socket.once('data', () => socket.destroy()));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const call = httpCall({ url: `http://127.0.0.1:${port}/` }, { side_effects: 'once' });
    expect(await host.runCall(call)).toMatchObject({ status: 'crashed', started: true, attempts: 1 });
    server.close();
  });

  test('never a call whose effect may happen once only', async () => {
    const { url } = await inTurn([503], [200]);
    const reply = await host.runCall(httpCall({ url }, { side_effects: 'once' }));
    expect(reply).toMatchObject({ status: 'failed', attempts: 1, started: true });
  });

  test('not when the server asks for more time than there is', async () => {
    const { url } = await inTurn([429, { 'retry-after': '3600' }], [200]);
    expect(await host.runCall(httpCall({ url }))).toMatchObject({ status: 'failed', attempts: 1 });
  });
});

describe('a host that does not answer', () => {
  test('is not called for a while', async () => {
    const gone = createServer();
    gone.listen(0, '127.0.0.1');
    await once(gone, 'listening');
    const { port } = gone.address() as AddressInfo;
    gone.close();
    await once(gone, 'close');
    const call = httpCall({ url: `http://127.0.0.1:${port}/` }, { side_effects: 'once' });
    for (let failure = 0; failure < 5; failure++)
      expect(await host.runCall(call)).toMatchObject({ status: 'failed', started: false, attempts: 1 });
    const reply = await host.runCall({ ...call, timeout_ms: 1 });
    expect(reply).toMatchObject({ status: 'failed', started: false, attempts: 0 });
    expect(reply.result).toContain('is not called for 1 s');
  });
});

describe('a secret', () => {
  const SECRET = 'canary "\\ key';
  const headers = { 'X-Key': '{{secrets.KEY}}' };
  const secrets = { KEY: SECRET, OTHER: 'canary', NONE: '' };

  test.each([
    ['a result', 200, undefined],
    ['a part of JSON', 200, '/x-key'],
    ['a part of JSON that is missing', 200, '/none'],
    ['an error', 400, undefined],
  ])('is cut out of %s', async (_, status, result) => {
    const { url } = await serve((request, response) => {
      response.writeHead(status).end(JSON.stringify(request.headers));
    });
    const reply = await host.runCall(httpCall({ url, headers, result }, { secrets }));
    expect(reply.result).toContain('[secret KEY]');
    expect(JSON.stringify(reply)).not.toContain('canary');
  });

  test('is cut out where a text is cut', async () => {
    const { url } = await serve((_, response) => response.writeHead(400).end(`${'x'.repeat(995)}${SECRET}`));
    const reply = await host.runCall(httpCall({ url, headers }, { secrets }));
    expect(reply.result).not.toContain('canar');
  });

  test('is in no error', async () => {
    const bad = { KEY: 'canary\u0000' };
    const replies = [
      await host.runCall(httpCall({ url: 'http://127.0.0.1:9999/', headers }, { secrets: bad })),
      await host.runCall(httpCall({ url: 'http://127.0.0.1:22/', headers }, { secrets })),
    ];
    expect(replies.map(({ status }) => status)).toEqual(['failed', 'failed']);
    expect(JSON.stringify(replies)).not.toContain('canary');
  });

  test('does not follow a redirect to another host', async () => {
    const other = await serve((_, response) => response.end('other'));
    const { url } = await serve((_, response) => response.writeHead(302, { location: other.url }).end());
    expect(await host.runCall(httpCall({ url, headers }, { secrets }))).toMatchObject({ result: 'other' });
    expect(JSON.stringify(other.seen[0]!.rawHeaders)).not.toContain('canary');
  });

  test('is cut out of the address to which a server leads', async () => {
    const { url } = await serve((_, response) =>
      response.writeHead(302, { location: 'https://canary-key.invalid/' }).end(),
    );
    const reply = await host.runCall(httpCall({ url, headers }, { secrets }));
    expect(reply).toMatchObject({ status: 'crashed', started: true });
    expect(reply.result).not.toContain('canary');
  });

  test('is in no line of the log', () => {
    expect(log.join('\n')).not.toContain('canary');
  });
});

describe('a fetch of sandboxed code', () => {
  test('has any answer as its result', async () => {
    const { url } = await serve((request, response) => {
      response.writeHead(418, { 'x-answer': 'yes' });
      request.pipe(response);
    });
    const more = { method: 'PUT', headers: { 'x-a': 'b' }, body: 'text', result_char_limit: 10 };
    const reply = await host.runCall(fetchCall(`${url}/path`, more));
    expect(reply).toMatchObject({ status: 'succeeded', truncated: false, attempts: 1, answer_bytes: 4 });
    expect(JSON.parse(reply.result)).toMatchObject({
      status: 418,
      url: `${url}/path`,
      headers: { 'x-answer': 'yes' },
      body: 'text',
    });
  });

  test('reaches allowed hosts only, redirects included', async () => {
    const other = await serve((_, response) => response.end());
    const { url, seen } = await serve((_, response) =>
      response.writeHead(302, { location: other.url }).end(),
    );
    expect(await host.runCall(fetchCall(url))).toMatchObject({ status: 'failed', started: true });
    const none = await host.runCall(fetchCall(url, { allowed_hosts: [] }));
    expect(none).toMatchObject({ status: 'failed', started: false });
    expect(none.result).toContain('is not among the allowed ones');
    expect([seen.length, other.seen.length]).toEqual([1, 0]);
  });

  test('may not frame the request', async () => {
    const { url, seen } = await serve((_, response) => response.end());
    const reply = await host.runCall(fetchCall(url, { headers: { host: 'other.example' } }));
    expect(reply).toMatchObject({ status: 'failed', started: false });
    expect(seen).toEqual([]);
  });

  test('is never repeated', async () => {
    const { url } = await inTurn([503], [200]);
    const reply = await host.runCall(fetchCall(url));
    expect([reply.attempts, (JSON.parse(reply.result) as { status: number }).status]).toEqual([1, 503]);
  });
});
