import type { ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { API_KEY, errorBody, scriptedServer, sendJson, wireBatch, type Answerer } from './scripted-server.ts';

const BODY = new Blob(['{"requests":[{"custom_id":"a","params":{"x":"é"}}]}'], { type: 'application/json' });

function create(answer: Answerer, options: { timeoutMs?: number; signal?: AbortSignal } = {}) {
  return scriptedServer(answer).then(async (server) => {
    const outcome = await server.provider.createBatch(BODY, { timeoutMs: 5_000, ...options });
    return { outcome, requests: server.requests };
  });
}

function html(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'text/html' });
  response.end('<html>nope</html>');
}

describe('an answered create', () => {
  test('sends the body once, with its length, version and key, and returns the batch', async () => {
    const { outcome, requests } = await create((_seen, response) => sendJson(response, 200, wireBatch()));
    expect(outcome).toEqual({
      outcome: 'created',
      batch: {
        provider_id: 'msgbatch_01',
        processing_status: 'in_progress',
        counts: { processing: 2, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
        request_count: 2,
        created_at: new Date('2026-11-20T10:00:00.100Z'),
        expires_at: new Date('2026-11-21T10:00:00.100Z'),
        ended_at: null,
        archived_at: null,
        has_results: false,
      },
    });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({
      method: 'POST',
      url: '/v1/messages/batches',
      body: await BODY.text(),
    });
    expect(requests[0]!.headers).toMatchObject({
      'content-length': String(BODY.size),
      'content-type': 'application/json',
      'anthropic-version': '2026-10-21',
      authorization: `Bearer ${API_KEY}`,
      'x-stainless-retry-count': '0',
    });
    expect(requests[0]!.headers).not.toHaveProperty('transfer-encoding');
  });

  test('accepts any content type of the answer', async () => {
    const { outcome } = await create((_seen, response) => response.end(JSON.stringify(wireBatch())));
    expect(outcome.outcome).toBe('created');
  });
});

describe('one create is one POST and stays unknown', () => {
  const cases: [string, Answerer, RegExp][] = [
    [
      'when the connection is reset',
      (_seen, _response, request) => request.socket.destroy(),
      /^Connection error: fetch failed: .*(?:UND_ERR_SOCKET|ECONNRESET)/,
    ],
    [
      'when the connection is reset in the middle of the answer',
      (_seen, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '5000' });
        response.write(JSON.stringify(wireBatch()), () => response.destroy());
      },
      /terminated|closed|aborted/,
    ],
    [
      'when the answer is truncated JSON',
      (_seen, response) => response.end(JSON.stringify(wireBatch()).slice(0, 60)),
      /HTTP 200 without a batch/,
    ],
    [
      'when the answer is a page of HTML',
      (_seen, response) => html(response, 200),
      /HTTP 200 without a batch/,
    ],
    ['when the answer is empty', (_seen, response) => response.end(), /HTTP 200 without a batch/],
    [
      'when the answer has no id',
      (_seen, response) => sendJson(response, 200, wireBatch({ id: null })),
      /without/,
    ],
    [
      'when the answer has no counts',
      (_seen, response) => sendJson(response, 200, wireBatch({ request_counts: { processing: -1 } })),
      /without/,
    ],
    [
      'when the answer never ends',
      (_seen, response) => {
        const more = (): void => void response.write('x'.repeat(1 << 20), (error) => !error && more());
        more();
      },
      /longer than 16777216 bytes/,
    ],
    ...[408, 409, 500, 502, 503, 504].map((status): [string, Answerer, RegExp] => [
      `on ${status}, even if the server asks for a retry`,
      (_seen, response) => {
        sendJson(response, status, errorBody('api_error'), { 'x-should-retry': 'true', 'retry-after': '0' });
      },
      new RegExp(`^HTTP ${status}: the api_error`),
    ]),
    // Fetch would resend a buffered body: on a 421 to the same server, on a redirect to another.
    ['on 421', (_seen, response) => sendJson(response, 421, {}), /^HTTP 421/],
    ...[301, 302, 307, 308].map((status): [string, Answerer, RegExp] => [
      `on a redirect with ${status}`,
      (_seen, response) => {
        response.writeHead(status, { location: '/v1/elsewhere' });
        response.end();
      },
      new RegExp(`^HTTP ${status}`),
    ]),
    ...[400, 401, 403, 404, 413, 422, 429, 529].map((status): [string, Answerer, RegExp] => [
      `on ${status} that is not in the provider's words`,
      (_seen, response) => html(response, status),
      new RegExp(`^HTTP ${status}: <html>nope`),
    ]),
    // A gateway may answer JSON too, after forwarding the body. Only the edge omits the outer type, on a 413.
    ...[400, 401, 403, 404, 422, 429, 529].map((status): [string, Answerer, RegExp] => [
      `on ${status} with the error object of a gateway`,
      (_seen, response) =>
        sendJson(response, status, { error: { type: 'invalid_request_error', message: 'upstream' } }),
      new RegExp(`^HTTP ${status}: upstream`),
    ]),
  ];

  test.each(cases)('%s', async (_name, answer, reason) => {
    const { outcome, requests } = await create(answer);
    expect(outcome).toMatchObject({ outcome: 'unknown', reason: expect.stringMatching(reason) as unknown });
    expect(requests.map(({ method }) => method)).toEqual(['POST']);
  });

  test('when no answer comes in time', async () => {
    const { outcome, requests } = await create(() => {}, { timeoutMs: 1_000 });
    expect(outcome).toEqual({
      outcome: 'unknown',
      reason: 'no complete answer within 1000 ms',
      status: null,
    });
    expect(requests).toHaveLength(1);
  });

  test('when the answer starts in time and does not end', async () => {
    const { outcome } = await create((_seen, response) => void response.write('{"id":'), {
      timeoutMs: 1_000,
    });
    expect(outcome).toMatchObject({ outcome: 'unknown', reason: 'no complete answer within 1000 ms' });
  });

  test('when an error body does not end in time', async () => {
    const refuse: Answerer = (_seen, response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.write('{"type":"error",');
    };
    const { outcome } = await create(refuse, { timeoutMs: 1_000 });
    expect(outcome).toMatchObject({ outcome: 'unknown', status: 400 });
  });

  test('when the caller aborts', async () => {
    const giveUp = new AbortController();
    const { outcome, requests } = await create(() => giveUp.abort(), { signal: giveUp.signal });
    expect(outcome).toEqual({ outcome: 'unknown', reason: 'aborted by the caller', status: null });
    expect(requests).toHaveLength(1);
  });

  test('when the connection is refused', async () => {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const provider = anthropicProvider({ apiKey: API_KEY, baseURL: `http://127.0.0.1:${port}` });
    const outcome = await provider.createBatch(BODY, { timeoutMs: 5_000 });
    expect(outcome).toMatchObject({
      outcome: 'unknown',
      status: null,
      reason: expect.stringContaining('ECONNREFUSED') as unknown,
    });
  });

  test('when the body file is missing', async () => {
    const server = await scriptedServer((_seen, response) => sendJson(response, 200, wireBatch()));
    const gone = new Blob(['x']);
    gone.stream = () => new ReadableStream({ pull: (controller) => controller.error(new Error('ENOENT')) });
    const outcome = await server.provider.createBatch(gone, { timeoutMs: 5_000 });
    expect(outcome.outcome).toBe('unknown');
  });
});

describe('a refused create', () => {
  test.each([
    [400, 'invalid_request_error', 'bad_request'],
    [401, 'authentication_error', 'unauthorized'],
    [403, 'permission_error', 'unauthorized'],
    [404, 'not_found_error', 'not_found'],
    [413, 'request_too_large', 'too_large'],
    [422, 'invalid_request_error', 'bad_request'],
    [429, 'rate_limit_error', 'rate_limited'],
    [529, 'overloaded_error', 'overloaded'],
  ])('with %i %s was sent once and is known to be %s', async (status, type, what) => {
    const { outcome, requests } = await create((_seen, response) => {
      sendJson(response, status, errorBody(type), { 'retry-after': '7', 'x-should-retry': 'true' });
    });
    const message = `the ${type}`;
    expect(outcome).toEqual({ outcome: 'refused', what, status, message, retry_after_ms: 7_000 });
    expect(requests).toHaveLength(1);
  });

  test('by the edge, in its shorter shape, is too large', async () => {
    const body = { error: { type: 'request_too_large', message: 'Request exceeds the maximum size' } };
    const { outcome } = await create((_seen, response) => sendJson(response, 413, body));
    expect(outcome).toMatchObject({ outcome: 'refused', what: 'too_large' });
  });

  test('names a spend limit', async () => {
    const body = errorBody('rate_limit_error', { error_code: 'enforced_spend_limit_reached' });
    const { outcome } = await create((_seen, response) => sendJson(response, 429, body));
    expect(outcome).toMatchObject({ outcome: 'refused', what: 'spend_limit', retry_after_ms: null });
  });

  test('limits the wait that the provider asks for', async () => {
    const { outcome } = await create((_seen, response) => {
      sendJson(response, 429, errorBody('rate_limit_error'), { 'retry-after': '2147483' });
    });
    expect(outcome).toMatchObject({ retry_after_ms: 3_600_000 });
  });
});

describe('the key', () => {
  test('is removed from every text of the provider', async () => {
    const body = { type: 'error', error: { type: 'authentication_error', message: `bad key ${API_KEY}!` } };
    const { outcome } = await create((_seen, response) => sendJson(response, 401, body));
    expect(outcome).toMatchObject({ message: 'bad key [key]!' });
    const echoed = await create((seen, response) => response.end(seen.headers.authorization));
    expect(JSON.stringify(echoed.outcome)).not.toContain(API_KEY);
    const atTheCut = await create((_seen, response) => response.end('x'.repeat(460) + API_KEY));
    expect(JSON.stringify(atTheCut.outcome)).not.toContain(API_KEY.slice(0, 10));
  });

  test.each(['', 'sk ant', 'sk-ant\n', '"sk"\u00a0', 'schlüssel', '"sk-ant"', "'sk-ant'", 'sk\\ant'])(
    '%j is refused without being shown',
    (apiKey) => {
      const make = () => anthropicProvider({ apiKey, baseURL: 'https://api.anthropic.com' });
      expect(make).toThrow(/ANTHROPIC_API_KEY must be/);
    },
  );

  test.each(['api.anthropic.com', 'ftp://host', 'https://user:word@host', ''])(
    'base URL %j is refused',
    (baseURL) => {
      expect(() => anthropicProvider({ apiKey: 'k', baseURL })).toThrow(/ANTHROPIC_BASE_URL must be/);
    },
  );
});
