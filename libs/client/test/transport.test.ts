import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createNightshift, isApiError, NightshiftUnreachableError, type Retry } from '../src/index.ts';
import { refuse, sendJson, serve } from './server.ts';

const AGENT = { id: 'agent-1', name: 'a' };
const NEW_AGENT = { name: 'a', model: 'anthropic/claude-haiku-4-5' };

test('every POST carries a key of its own, and the same in each attempt', async () => {
  const { client, received } = await serve((_, response, place) => {
    if (place === 0) response.destroy();
    else if (place === 1) refuse(response, 503, 'not_ready', { 'retry-after': '0' });
    else sendJson(response, AGENT);
  });
  expect(await client.agents.create(NEW_AGENT)).toEqual(AGENT);
  await client.agents.create(NEW_AGENT);
  const keys = received.map(({ headers }) => headers['idempotency-key']);
  expect(keys).toEqual([keys[0], keys[0], keys[0], expect.any(String)]);
  expect(keys[3]).not.toBe(keys[0]);
  expect(received.map(({ body }) => JSON.parse(body) as unknown)).toEqual(received.map(() => NEW_AGENT));
  expect(received.map(({ headers }) => headers.authorization)).toEqual(received.map(() => 'Bearer ns_key'));
});

test('a given key is sent as it is', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, {}));
  await client.batches.create({ requests: [] }, { idempotencyKey: 'monday' });
  await client.request('POST', '/v1/batches', { json: {}, headers: { 'Idempotency-Key': 'tuesday' } });
  expect(received.map(({ headers }) => headers['idempotency-key'])).toEqual(['monday', 'tuesday']);
});

test('a header has one value, whatever the case of its name; that of the request wins', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, {}), {
    headers: { 'Idempotency-Key': 'client', 'X-Team': 'a' },
  });
  await client.batches.create({ requests: [] }, { idempotencyKey: 'monday' });
  await client.request('POST', '/v1/batches', {
    json: {},
    headers: { 'IDEMPOTENCY-KEY': 'tuesday', 'Content-Type': 'application/x-json', 'x-team': 'b' },
  });
  expect(received.map(({ headers }) => [headers['idempotency-key'], headers['x-team']])).toEqual([
    ['monday', 'a'],
    ['tuesday', 'b'],
  ]);
  expect(received[1]?.headers['content-type']).toBe('application/x-json');
});

test('Retry-After is waited for, in seconds and as a date', async () => {
  const retries: Retry[] = [];
  const inTwo = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 2_000);
  const { client } = await serve(
    (_, response, place) => {
      if (place === 0) refuse(response, 429, 'not_ready', { 'retry-after': '1' });
      else if (place === 1) refuse(response, 503, 'not_ready', { 'retry-after': inTwo.toUTCString() });
      else sendJson(response, AGENT);
    },
    { onRetry: (retry) => retries.push(retry) },
  );
  await client.agents.retrieve('agent-1');
  expect(Date.now()).toBeGreaterThanOrEqual(inTwo.getTime());
  expect(retries.map(({ attempt, status }) => [attempt, status])).toEqual([
    [1, 429],
    [2, 503],
  ]);
  expect(retries[0]?.delayMs).toBe(1_000);
});

test('a wait that would be too long is thrown as the refusal', async () => {
  const { client, received } = await serve((_, response) =>
    refuse(response, 503, 'not_ready', { 'retry-after': '3600' }),
  );
  await expect(client.agents.retrieve('agent-1')).rejects.toMatchObject({ status: 503, code: 'not_ready' });
  expect(received).toHaveLength(1);
});

test('a refusal that a repeated request would get again is thrown at once', async () => {
  const { client, received } = await serve((_, response) =>
    refuse(response, 504, 'outcome_unknown', { 'x-should-retry': 'false' }),
  );
  await expect(client.agents.runTool('agent-1', 'look')).rejects.toMatchObject({ code: 'outcome_unknown' });
  expect(received).toHaveLength(1);
});

test('an abort ends the wait for a retry, and a request under way', async () => {
  const waiting = new AbortController();
  const { client } = await serve(
    (_, response) => refuse(response, 503, 'not_ready', { 'retry-after': '60' }),
    {
      onRetry: () => waiting.abort(new Error('enough')),
    },
  );
  await expect(client.request('GET', '/v1/agents/', { signal: waiting.signal })).rejects.toThrow('enough');

  const asking = new AbortController();
  const silent = await serve(() => asking.abort(new Error('enough')));
  await expect(silent.client.request('GET', '/v1/agents/', { signal: asking.signal })).rejects.toThrow(
    'enough',
  );
});

test('an answer that is cut, or late, is asked for again', async () => {
  const { client, received } = await serve(
    (_, response, place) => {
      if (place === 0) {
        response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
          .write('{"id"');
        setImmediate(() => response.destroy());
      } else if (place === 2) sendJson(response, AGENT);
    },
    { timeoutMs: 200 },
  );
  expect(await client.agents.retrieve('agent-1')).toEqual(AGENT);
  expect(received).toHaveLength(3);
});

test('without any server the error names the address', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise((resolve) => server.close(resolve));
  const client = createNightshift({ url, apiKey: 'k', retriesMax: 0 });
  const error: unknown = await client.agents.retrieve('agent-1').catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(NightshiftUnreachableError);
  expect(error).toHaveProperty('message', expect.stringContaining(url));
});

test('an operation that the API does not know says that the API is older', async () => {
  const { client } = await serve((_, response) => refuse(response, 404, 'unknown_path'));
  await expect(client.admin.usage()).rejects.toThrow(/is older than this client: upgrade the API/);
  await expect(client.batches.wait('job-1')).rejects.toThrow(/is older than this client/);
  // The caller chose this path.
  await expect(client.request('GET', '/v1/nothing')).rejects.toThrow(/^The server says unknown_path\.$/);
});

test('a refusal has the code, the fields and the id of the request', async () => {
  const fields = [{ path: '/name', message: 'must be a string' }];
  const { client } = await serve((_, response) => {
    const problem = {
      detail: 'No.',
      code: 'validation_failed',
      errors: fields,
      errors_total: 1,
      request_id: 'r-1',
    };
    sendJson(response, problem, 422);
  });
  const error: unknown = await client.agents.create(NEW_AGENT).catch((cause: unknown) => cause);
  expect(isApiError(error, 'validation_failed')).toBe(true);
  expect(error).toMatchObject({ status: 422, errors: fields, errorsTotal: 1, requestId: 'r-1' });
});

test('an answer of another server is an error that says so', async () => {
  const { client } = await serve((_, response) => response.writeHead(403).end('<html>'));
  await expect(client.agents.retrieve('agent-1')).rejects.toMatchObject({ code: 'unexpected', status: 403 });
});

test('headers are made for each attempt', async () => {
  let made = 0;
  const { client, received } = await serve(
    (_, response, place) => (place === 0 ? response.destroy() : sendJson(response, AGENT)),
    { headers: () => ({ 'x-turn': String((made += 1)) }) },
  );
  await client.agents.retrieve('agent-1');
  expect(received.map(({ headers }) => headers['x-turn'])).toEqual(['1', '2']);
});

test('a streamed body that breaks is thrown as its own error, and not sent again', async () => {
  const retries: Retry[] = [];
  const { client } = await serve(() => undefined, { onRetry: (retry) => retries.push(retry) });
  const body = () =>
    new ReadableStream<Uint8Array>({
      pull: (stream) => {
        stream.enqueue(new Uint8Array(10));
        throw new Error('no such file');
      },
    });
  await expect(client.request('POST', '/v1/messages/append', { body })).rejects.toThrow(/^no such file$/);
  expect(retries).toEqual([]);
});

test('a list is asked for page by page, while it is read', async () => {
  const { client, received } = await serve(({ url }, response) => {
    const after = url.searchParams.get('after');
    const next = after === null ? { link: '</v1/agents/?after=agent-2>; rel="next"' } : {};
    sendJson(response, [{ id: after === null ? 'agent-2' : 'agent-3' }], 200, next);
  });
  const ids: string[] = [];
  for await (const { id } of client.agents.list({ limit: 1 })) ids.push(id);
  expect(ids).toEqual(['agent-2', 'agent-3']);
  expect(received.map(({ url }) => url.search)).toEqual(['?limit=1', '?limit=1&after=agent-2']);
});

test('a url that is no address is refused at once', () => {
  expect(() => createNightshift({ url: 'localhost:8283', apiKey: 'k' })).toThrow(/pass an address like http/);
});

test('a list goes on by the cursor of its link, whichever it has', async () => {
  const { client, received } = await serve((request, response) => {
    const { searchParams } = request.url;
    const path = '/v1/agents/agent-1/messages/';
    const isFirst = !searchParams.has('before');
    const link = `<${path}?order=desc&after=message-1&before=message-8>; rel="next", <${path}?after=message-9>; rel="prev"`;
    sendJson(response, [{ id: isFirst ? 'message-9' : 'message-7' }], 200, isFirst ? { link } : {});
  });
  const ids: string[] = [];
  for await (const { id } of client.agents.messages('agent-1', { order: 'desc', after: 'message-1' }))
    ids.push(id);
  expect(ids).toEqual(['message-9', 'message-7']);
  expect(received.map(({ url }) => url.search)).toEqual([
    '?order=desc&after=message-1',
    '?order=desc&after=message-1&before=message-8',
  ]);
});

test('a schedule is run now under a given key', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, {}));
  await client.schedules.runNow('schedule-1', { idempotencyKey: 'monday' });
  expect(received[0]?.headers['idempotency-key']).toBe('monday');
});
