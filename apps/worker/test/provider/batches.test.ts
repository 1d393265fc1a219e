import { describe, expect, test } from 'vitest';
import { retryAfterMsOf } from '../../src/provider/failure.ts';
import { parseRemoteBatch } from '../../src/provider/remote-batch.ts';
import { API_KEY, errorBody, scriptedServer, sendJson, wireBatch, type Answerer } from './scripted-server.ts';

describe('a batch', () => {
  test.each([
    ['2024-09-24T18:37:24.100435Z', '2024-09-24T18:37:24.100Z'],
    ['2026-06-22T15:40:08.480837+00:00', '2026-06-22T15:40:08.480Z'],
    ['2026-06-22T17:40:08+02:00', '2026-06-22T15:40:08.000Z'],
  ])('created at %s is read', (created_at, expected) => {
    expect(parseRemoteBatch(wireBatch({ created_at }))?.created_at.toISOString()).toBe(expected);
  });

  test('sums all five counts, missing counts as 0', () => {
    const request_counts = { processing: 1, succeeded: 2, errored: 4, canceled: 8 };
    const batch = parseRemoteBatch(wireBatch({ request_counts }));
    expect(batch).toMatchObject({ request_count: 15, counts: { expired: 0 } });
  });

  test('has results once it names a results URL', () => {
    const ended = {
      processing_status: 'ended',
      ended_at: '2026-11-20T11:00:00Z',
      results_url: 'https://x/r',
    };
    expect(parseRemoteBatch(wireBatch(ended))).toMatchObject({
      processing_status: 'ended',
      has_results: true,
      ended_at: new Date('2026-11-20T11:00:00Z'),
    });
  });

  test('with an unknown status counts as in progress', () => {
    expect(parseRemoteBatch(wireBatch({ processing_status: 'queued' }))?.processing_status).toBe(
      'in_progress',
    );
  });

  test.each([
    ['in_progress', 'in_progress'],
    ['canceling', 'canceling'],
    ['ended', 'ended'],
  ])('with the status %s keeps it', (processing_status, expected) => {
    expect(parseRemoteBatch(wireBatch({ processing_status }))?.processing_status).toBe(expected);
  });

  test('keeps its times, and has no results with an empty or missing results URL', () => {
    const [expires_at, ended_at, archived_at] = [1, 2, 3].map((hour) => `2026-11-20T0${hour}:00:00.000Z`);
    const times = { expires_at, ended_at, archived_at };
    const read = parseRemoteBatch(wireBatch(times));
    expect(JSON.parse(JSON.stringify(read))).toMatchObject(times);
    expect(
      parseRemoteBatch(wireBatch({ expires_at: null, ended_at: null, archived_at: 'soon' })),
    ).toMatchObject({ expires_at: null, ended_at: null, archived_at: null });
    for (const results_url of ['', null, 5])
      expect(parseRemoteBatch(wireBatch({ results_url }))?.has_results).toBe(false);
  });

  test.each([
    null,
    [],
    'batch',
    wireBatch({ id: '' }),
    wireBatch({ id: 5 }),
    wireBatch({ processing_status: null }),
    wireBatch({ request_counts: null }),
    wireBatch({ request_counts: { processing: 1.5 } }),
    wireBatch({ request_counts: { processing: '1' } }),
    wireBatch({ request_counts: { expired: -1 } }),
    wireBatch({ created_at: 'yesterday' }),
    wireBatch({ created_at: 5 }),
  ])('is not read from %j', (value) => {
    expect(parseRemoteBatch(value)).toBeNull();
  });
});

describe('retrieve', () => {
  test('finds a batch by its id', async () => {
    const server = await scriptedServer((_seen, response) =>
      sendJson(response, 200, wireBatch({ id: 'm/1' })),
    );
    expect(await server.provider.retrieveBatch('m/1')).toMatchObject({
      outcome: 'found',
      batch: { provider_id: 'm/1' },
    });
    expect(server.requests[0]).toMatchObject({ method: 'GET', url: '/v1/messages/batches/m%2F1' });
  });

  test('distinguishes an unknown batch from the 404 page of a proxy', async () => {
    const api = await scriptedServer((_seen, response) =>
      sendJson(response, 404, errorBody('not_found_error')),
    );
    expect(await api.provider.retrieveBatch('m')).toEqual({ outcome: 'not_found' });
    const proxy = await scriptedServer((_seen, response) => {
      response.writeHead(404, { 'content-type': 'text/html' });
      response.end('<html>');
    });
    expect(await proxy.provider.retrieveBatch('m')).toMatchObject({ outcome: 'unavailable', status: 404 });
  });

  test.each<[string, Answerer, object, number?]>([
    [
      'is limited',
      (_seen, response) =>
        sendJson(response, 429, errorBody('rate_limit_error'), { 'retry-after-ms': '250' }),
      { status: 429, retry_after_ms: 250, reason: 'HTTP 429: the rate_limit_error' },
    ],
    ['answers HTML', (_seen, response) => response.end('<html>'), { reason: 'the batch could not be read' }],
    ['resets', (_seen, _response, request) => request.socket.destroy(), { status: null }],
    ['is silent', () => {}, { reason: 'no complete answer within 1000 ms' }, 1_000],
  ])(
    'is unavailable, asked once, when the provider %s',
    async (_name, answer, expected, requestTimeoutMs) => {
      const server = await scriptedServer(answer, requestTimeoutMs);
      expect(await server.provider.retrieveBatch('m')).toMatchObject({ outcome: 'unavailable', ...expected });
      expect(server.requests).toHaveLength(1);
    },
  );
});

describe('cancel', () => {
  test('returns the batch after the cancel', async () => {
    const server = await scriptedServer((_seen, response) => {
      sendJson(response, 200, wireBatch({ processing_status: 'canceling' }));
    });
    expect(await server.provider.cancelBatch('m')).toMatchObject({
      batch: { processing_status: 'canceling' },
    });
    expect(server.requests).toMatchObject([{ method: 'POST', url: '/v1/messages/batches/m/cancel' }]);
  });

  test.each([400, 409, 422])('of a batch that has ended is no error (%i)', async (status) => {
    const server = await scriptedServer((seen, response) => {
      if (seen.method === 'POST') sendJson(response, status, errorBody('invalid_request_error'));
      else sendJson(response, 200, wireBatch({ processing_status: 'ended' }));
    });
    expect(await server.provider.cancelBatch('m')).toMatchObject({ batch: { processing_status: 'ended' } });
  });

  test('reports an unknown batch and an unreachable provider', async () => {
    const none = await scriptedServer((_seen, response) =>
      sendJson(response, 404, errorBody('not_found_error')),
    );
    expect(await none.provider.cancelBatch('m')).toEqual({ outcome: 'not_found' });
    const down = await scriptedServer((_seen, response) => sendJson(response, 500, errorBody('api_error')));
    expect(await down.provider.cancelBatch('m')).toMatchObject({ outcome: 'unavailable', status: 500 });
    expect(down.requests).toHaveLength(1);
  });
});

describe('list', () => {
  const hour = (n: number) => new Date(Date.UTC(2026, 10, 20, 23) - n * 3_600_000);
  const batchOf = (n: number) => wireBatch({ id: `b${n}`, created_at: hour(n).toISOString() });
  const all = Array.from({ length: 10 }, (_, n) => batchOf(n));

  /** Newest first, three per page. */
  const paged: Answerer = (seen, response) => {
    const after = new URL(seen.url, 'http://x').searchParams.get('after_id');
    const from = after === null ? 0 : all.findIndex((batch) => batch['id'] === after) + 1;
    const data = all.slice(from, from + 3);
    const last_id = data.at(-1)?.['id'] ?? null;
    sendJson(response, 200, {
      data,
      has_more: from + 3 < all.length,
      first_id: data[0]?.['id'] ?? null,
      last_id,
    });
  };

  test('pages back to the given time and not beyond', async () => {
    const server = await scriptedServer(paged);
    const listed = await server.provider.listBatches({ createdAfter: hour(4) });
    expect(listed.batches.map((batch) => batch.provider_id)).toEqual(['b0', 'b1', 'b2', 'b3', 'b4']);
    expect(listed).toMatchObject({ complete: true, unavailable: null });
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/v1/messages/batches?limit=1000',
      '/v1/messages/batches?limit=1000&after_id=b2',
    ]);
  });

  test('is complete when the last page comes before the given time', async () => {
    const server = await scriptedServer(paged);
    const listed = await server.provider.listBatches({ createdAfter: hour(1000) });
    expect(listed.batches).toHaveLength(10);
    expect(listed.complete).toBe(true);
  });

  test('is incomplete when the page limit is reached', async () => {
    const server = await scriptedServer(paged);
    const listed = await server.provider.listBatches({ createdAfter: hour(1000), limitPages: 2 });
    expect(listed).toMatchObject({ complete: false, unavailable: null });
    expect(listed.batches).toHaveLength(6);
  });

  test('keeps the earlier pages when the provider fails on a later one', async () => {
    const server = await scriptedServer((seen, response, request) => {
      if (seen.url.includes('after_id'))
        sendJson(response, 529, errorBody('overloaded_error'), { 'retry-after': '3' });
      else paged(seen, response, request);
    });
    const listed = await server.provider.listBatches({ createdAfter: hour(1000) });
    expect(listed).toMatchObject({ complete: false, unavailable: { status: 529, retry_after_ms: 3000 } });
    expect(listed.batches).toHaveLength(3);
  });

  test.each<[string, unknown, boolean, number]>([
    ['empty', { data: [], has_more: false, first_id: null, last_id: null }, true, 0],
    [
      'empty although it promises more',
      { data: [], has_more: true, first_id: null, last_id: null },
      false,
      0,
    ],
    ['partly unreadable', { data: [batchOf(0), { id: 'odd' }], has_more: false }, false, 1],
    ['with a cursor to itself', { data: [batchOf(0)], has_more: true, last_id: 'b0' }, false, 1],
    ['without a last id', { data: [batchOf(0)], has_more: true }, false, 1],
    ['without has_more', { data: [batchOf(0)] }, false, 1],
    ['no list', { data: {} }, false, 0],
    ['no object', 'x', false, 0],
  ])('of a page that is %s', async (_name, body, complete, count) => {
    const server = await scriptedServer((_seen, response) => sendJson(response, 200, body));
    const listed = await server.provider.listBatches({ createdAfter: hour(5) });
    expect(listed.complete).toBe(complete);
    expect(listed.batches).toHaveLength(count);
  });

  test('stops when the caller does', async () => {
    const stop = new AbortController();
    const server = await scriptedServer(() => stop.abort());
    const listed = await server.provider.listBatches({ createdAfter: hour(5), signal: stop.signal });
    expect(listed).toMatchObject({ complete: false, unavailable: { reason: 'aborted by the caller' } });
  });
});

test.each<[Record<string, string>, number | null]>([
  [{}, null],
  [{ 'retry-after': '2' }, 2000],
  [{ 'retry-after': '0.5' }, 500],
  [{ 'retry-after': '-1' }, 0],
  [{ 'retry-after': '' }, null],
  [{ 'retry-after': 'soon' }, null],
  [{ 'retry-after': '2', 'retry-after-ms': '30' }, 30],
  [{ 'retry-after': '2', 'retry-after-ms': 'x' }, 2000],
  [{ 'retry-after': 'Fri, 20 Nov 2026 10:00:05 GMT' }, 5000],
  [{ 'retry-after': 'Fri, 20 Nov 2026 09:00:00 GMT' }, 0],
  [{ 'retry-after': '99999999' }, 3_600_000],
])('retry-after of %j is %s ms', (headers, expected) => {
  expect(retryAfterMsOf(new Headers(headers), Date.parse('2026-11-20T10:00:00Z'))).toBe(expected);
});

test('no failure shows the key', async () => {
  const server = await scriptedServer((_seen, response) => sendJson(response, 500, errorBody(API_KEY)));
  const outcomes = [
    await server.provider.retrieveBatch('m'),
    await server.provider.cancelBatch('m'),
    await server.provider.listBatches({ createdAfter: new Date(0) }),
    await server.provider.streamResults('m', { idleTimeoutMs: 1000 }),
  ];
  expect(JSON.stringify(outcomes)).not.toContain(API_KEY);
  expect(JSON.stringify(outcomes)).toContain('the [key]');
});
