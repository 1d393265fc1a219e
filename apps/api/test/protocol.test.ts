import { Readable } from 'node:stream';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { measureJson } from '@nightshift/agent-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BATCH_BODY_VALUES_MAX, SMALL_BODY_BYTES_MAX } from '../src/json-body.ts';
import { API_KEY, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

describe('the key', () => {
  const unreadable = 'The Authorization header is not of the form `Bearer <key>`.';
  test.each([
    ['none', '', 'The request has no API key.'],
    ['a wrong key', 'Bearer nope', 'The API key is wrong.'],
    ['another scheme', `Basic ${API_KEY}`, unreadable],
    ['a key without a scheme', API_KEY, unreadable],
    ['a scheme without a key', 'Bearer', unreadable],
    ['a key with a blank', 'Bearer two words', unreadable],
  ])('%s is refused with 401 and an example', async (_name, authorization, said) => {
    const answer = await api.call('GET', '/v1/agents/', undefined, { authorization });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toBe('Bearer');
    expect(answer.body).toMatchObject({
      code: 'unauthorized',
      status: 401,
      detail: expect.stringContaining(said),
    });
  });

  test.each(['/v1/health/', '/v1/health', '/livez', '/readyz', '/openapi.json'])(
    '%s needs no key',
    async (path) => {
      const answer = await api.call('GET', path, undefined, { authorization: '' });
      expect(answer.status).toBe(200);
    },
  );
});

test('health and readiness name the model', async () => {
  expect((await api.call('GET', '/v1/health/')).body).toEqual({
    status: 'ok',
    version: '0.1.0',
    model: 'simulator',
  });
  expect((await api.call('GET', '/readyz')).body).toMatchObject({ status: 'ok', model: 'simulator' });
});

test('an error is a JSON body with problem, place and next step', async () => {
  const { status, headers, body } = await api.call('GET', `/v1/agents/agent-${UNKNOWN_UUID}`);
  expect(status).toBe(404);
  expect(headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(body).toEqual({
    type: 'urn:nightshift:error:not_found',
    title: 'Not found',
    status: 404,
    detail: `There is no agent agent-${UNKNOWN_UUID}. Check the id; lists show what exists.`,
    code: 'not_found',
    message: body.detail,
    errors: [],
    errors_total: 0,
    request_id: headers['x-request-id'],
  });
});

test('unknown routes are 404, wrong methods 405 with the allowed methods', async () => {
  const unknown = await api.call('GET', '/v1/nothing');
  expect([unknown.status, unknown.body.code]).toEqual([404, 'unknown_path']);
  expect(unknown.body.detail).toBe('There is no GET /v1/nothing. See GET /openapi.json for the paths.');
  const wrong = await api.call('DELETE', '/v1/messages/batches');
  expect(wrong.status).toBe(405);
  expect(wrong.headers.allow).toBe('GET, HEAD, POST');
  expect((await api.call('PUT', `/v1/agents/agent-${UNKNOWN_UUID}/`)).status).toBe(405);
});

test.each([
  ['GET', '/v1/batches/estimate'],
  ['HEAD', '/v1/batches/estimate/'],
  ['PATCH', '/v1/messages/batches/estimate/?x=1'],
  ['DELETE', '/v1/batches/estimate'],
] as const)('%s %s is 405: a named path is no id', async (method, url) => {
  const { statusCode, headers } = await api.app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${API_KEY}` },
  });
  expect([statusCode, headers.allow]).toEqual([405, 'POST']);
});

test.each([
  '/v1/agents',
  '/v1/agents/',
  '/v1/batches',
  '/v1/batches/',
  '/v1/messages/batches',
  '/v1/messages/batches/',
  '/v1/tags/',
  '/v1/models/',
  '/v1/models/embedding',
])('%s answers with or without a final slash', async (path) => {
  expect((await api.call('GET', path)).status).toBe(200);
});

describe('a body', () => {
  test.each([
    ['text/plain', 415],
    ['application/x-www-form-urlencoded', 415],
    ['application/json-patch+json', 415],
    ['application/jsonx', 415],
    ['application/json; charset=utf-8', 200],
    ['APPLICATION/JSON', 200],
  ])('of type %s is answered %i', async (type, status) => {
    const answer = await api.call('POST', '/v1/blocks/', '{"label":"a","value":"b"}', {
      'content-type': type,
    });
    expect(answer.status).toBe(status);
  });

  test.each<[string, (bytes: Buffer) => Buffer]>([
    ['gzip', gzipSync],
    ['Identity, GZIP', gzipSync],
    ['br', brotliCompressSync],
    // If the text is readable anyway, its declared encoding still counts.
    ['deflate', (bytes) => bytes],
  ])('with an encoding is 415, with the advice to send it plain: %s', async (encoding, encode) => {
    for (const url of ['/v1/blocks/', '/v1/batches', '/v1/batches/estimate']) {
      const answer = await api.app.inject({
        method: 'POST',
        url,
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'content-type': 'application/json',
          'content-encoding': encoding,
        },
        payload: encode(Buffer.from('{"label":"a","value":"b"}')),
      });
      expect(answer.json()).toMatchObject({
        status: 415,
        code: 'unsupported_media_type',
        detail:
          'The body has a Content-Encoding, and encoded bodies are not accepted. ' +
          'Send application/json, not encoded, or lines where the route takes them.',
      });
      expect(answer.statusCode).toBe(415);
    }
  });

  test.each(['identity', 'Identity', ''])('declared as not encoded is accepted: "%s"', async (encoding) => {
    const headers = { 'content-encoding': encoding };
    expect((await api.call('POST', '/v1/blocks/', { label: 'a', value: 'b' }, headers)).status).toBe(200);
  });

  test('that is empty is not encoded, whatever its header says', async () => {
    const headers = { 'content-encoding': 'gzip' };
    expect((await api.call('GET', '/v1/blocks/', undefined, headers)).status).toBe(200);
    const agent = await createAgent(api);
    const block = await api.call('POST', '/v1/blocks/', { label: 'other', value: '' });
    const path = `/v1/agents/${agent}/core-memory/blocks/attach/${block.body.id}`;
    expect((await api.call('PATCH', path, '', headers)).status).toBe(200);
  });

  test('that is absent is reported as missing', async () => {
    for (const path of ['/v1/messages/batches', '/v1/blocks/']) {
      const { status, body } = await api.call('POST', path);
      expect([status, body.errors[0].path]).toEqual([422, '']);
      expect(body.detail).toMatch(/^The body: /);
    }
  });

  test("with a missing field or wrong type is reported without the validator's words", async () => {
    const { body } = await api.call('POST', '/v1/blocks/', { value: 'a', metadata: 'x' });
    expect(body.errors).toEqual([
      { path: '/label', message: 'is missing' },
      { path: '/metadata', message: 'Invalid input: expected object, received string' },
    ]);
    const list = await api.call('GET', '/v1/runs?limit=many');
    expect(list.body.errors[0]).toMatchObject({ path: '?limit' });
    expect(list.body.detail).not.toContain('NaN');
  });

  test('with an unknown key is 422 and names it by a JSON Pointer', async () => {
    const { status, body } = await api.call('POST', `/v1/blocks/block-${UNKNOWN_UUID}/revert`, {
      revision: 1,
      'a/b~c': 1,
    });
    expect([status, body.errors]).toEqual([422, [{ path: '/a~1b~0c', message: 'is not known here' }]]);
  });

  test('that is not JSON is 422', async () => {
    const answer = await api.call('POST', '/v1/blocks/', '{"label":');
    expect([answer.status, answer.body.code]).toEqual([422, 'validation_failed']);
    expect(answer.body.detail).toMatch(/^The body is not JSON: Unexpected end of JSON input\. /);
  });

  test.each([
    ['another encoding', 'caf\u00e9'],
    ['a character cut in its middle', '\u00f0\u009f\u0098'],
    ['a lone surrogate', '\u00ed\u00a0\u0080'],
  ])('that is not UTF-8 is 422 and stores nothing: %s', async (_name, value) => {
    const label = 'no UTF-8';
    const answer = await api.app.inject({
      method: 'POST',
      url: '/v1/blocks/',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      payload: Buffer.from(JSON.stringify({ label, value }), 'latin1'),
    });
    expect([answer.statusCode, answer.json<{ code: string }>().code]).toEqual([422, 'validation_failed']);
    expect(answer.json<{ detail: string }>().detail).toMatch(
      /^The body is not UTF-8, which JSON requires\. /,
    );
    expect((await api.call('GET', `/v1/blocks?label=${encodeURIComponent(label)}`)).body).toEqual([]);
  });

  test('keeps every UTF-8 character, even if its bytes arrive separately', async () => {
    const value = 'é€😀\ufffd\u2028';
    const [head, tail] = [`{"label":"UTF-8","value":"`, `"}`].map((text) => Buffer.from(text));
    const bytes = Buffer.from(value);
    const parts = [head!, ...Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)), tail!];
    const answer = await api.app.inject({
      method: 'POST',
      url: '/v1/blocks/',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      payload: Readable.from(parts),
    });
    expect([answer.statusCode, answer.json<{ value: string }>().value]).toEqual([200, value]);
  });

  test('with too much nesting is 400, before it is parsed', async () => {
    const answer = await api.call('POST', '/v1/blocks/', '['.repeat(1_000_000));
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_argument']);
  });

  test.each([
    ['/v1/blocks/', 1_000_000, '1,000,000'],
    ['/v1/batches', 20_000_000, '20,000,000'],
    ['/v1/batches/estimate', 20_000_000, '20,000,000'],
  ])('with too many values for %s is 413, before it is parsed', async (path, values, named) => {
    // Invalid JSON without its end: a parser would answer 422.
    const answer = await api.call('POST', path, `{"requests":[${'{},'.repeat(values / 2)}`);
    expect([answer.status, answer.body.code]).toEqual([413, 'payload_too_large']);
    expect(answer.body.detail).toBe(
      `The body holds more than ${named} values, including lists and objects. Split the request; the limit is in the message.`,
    );
  });

  test('of 100,000 requests may hold ten times the values of an ordinary body', () => {
    const request = {
      agent_id: `agent-${UNKNOWN_UUID}`,
      custom_id: 'ticket-7',
      conversation: 'isolated',
      max_steps: 20,
      max_cost_usd: 0.5,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Which team should answer this ticket?' }] },
      ],
    };
    const { values } = measureJson(JSON.stringify(request), { depth: 100, values: 1_000 });
    expect(10 * 100_000 * values).toBeLessThan(BATCH_BODY_VALUES_MAX);
  });

  test.each([
    '{"label":"a","value":"b","__proto__":{"x":1}}',
    '{"constructor":{"prototype":{"x":1}},"label":"a"}',
  ])('that would change prototypes is refused: %s', async (body) => {
    expect((await api.call('POST', '/v1/blocks/', body)).status).toBe(422);
  });

  test("beyond its route's limit is 413 and names the limit", async () => {
    const answer = await api.call(
      'POST',
      '/v1/blocks/',
      JSON.stringify({ label: 'a', value: 'x'.repeat(17_000_000) }),
    );
    expect([answer.status, answer.body.code]).toEqual([413, 'payload_too_large']);
    expect(answer.body.detail).toMatch(/^The body is larger than the 16 MiB that this route accepts\. /);
  });

  test.each([
    ['{"label":"a","value":"","metadata":{"ids":[1,{"id":12345678901234567890}]}}', '/metadata/ids/1/id'],
    ['{"label":"a","value":"","metadata":{"id":1234567890123456789012345}}', '/metadata/id'],
    ['{"label":"a","value":"","limit":9007199254740993}', '/limit'],
    ['12345678901234567890', ''],
  ])('with a number that would lose digits is 422 and names it: %s', async (body, path) => {
    const answer = await api.call('POST', '/v1/blocks/', body);
    expect([answer.status, answer.body.errors[0].path]).toEqual([422, path]);
    expect(answer.body.detail).toMatch(
      new RegExp(`^${path || 'The body'} must be .* of at most 2\\^53, or a string`),
    );
  });

  test.each(['1e400', '-1e400', `1${'0'.repeat(400)}`, '"5"', '"1e400"'])(
    'with %s for a number says that it must be a number',
    async (value) => {
      const message = 'must be a number of at most 1.8e308, without quotes';
      for (const body of [
        `{"requests":[],"max_cost_usd":${value}}`,
        `${' '.repeat(SMALL_BODY_BYTES_MAX)}{"requests":[],"max_output_tokens":${value}}`,
      ]) {
        const answer = await api.call('POST', '/v1/batches', body);
        const [path = ''] = /max_\w+/.exec(body) ?? [];
        expect([answer.status, answer.body.errors]).toMatchObject([
          422,
          expect.arrayContaining([{ path: `/${path}`, message }]),
        ]);
      }
    },
  );

  test('keeps numbers that JavaScript can represent, and digits in texts', async () => {
    const metadata = { id: '12345678901234567890', text: 'n: 12345678901234567890', much: 1e21, few: 0.1 };
    const answer = await api.call('POST', '/v1/blocks/', { label: 'a', value: '', metadata });
    expect(answer.body.metadata).toEqual(metadata);
  });

  const bad = `[${'1,'.repeat(900_000)}1]`;
  test.each([
    ['/v1/agents', `{"tags":${bad}}`, '/tags'],
    ['/v1/agents', `{"tool_rules":[{"type":"parent_last_tool","tool_name":"a","children":${bad}}]}`, ''],
    ['/v1/tools', `{"source_code":"","npm_requirements":${bad}}`, '/npm_requirements'],
    ['/v1/batches', `{"requests":[{"input":${bad}}]}`, '/requests/0/'],
    ['/v1/batches', `{"requests":${bad}}`, '/requests'],
    ['/v1/batches', `{"requests":[${'1,'.repeat(99_999)}1]}`, '/requests/0'],
    ['/v1/batches', `{${Array.from({ length: 99_999 }, (_, n) => `"a${n}":1,`).join('')}"z":1}`, '/'],
    [
      '/v1/batches',
      `{"requests":[${`{"messages":[${'1,'.repeat(999)}1]},`.repeat(999)}{"messages":[]}]}`,
      '/requests/0/',
    ],
  ])('with very many errors is 422 and names some of them: %s %.40s', async (path, body, field) => {
    const answer = await api.call('POST', path, body);
    expect([answer.status, answer.body.code]).toEqual([422, 'validation_failed']);
    expect(answer.body.errors.length).toBeLessThanOrEqual(100);
    expect(answer.body.errors[0].path).toContain(field);
  });

  test('may be absent if not needed, whatever the content type', async () => {
    const agent = await createAgent(api);
    const block = await api.call('POST', '/v1/blocks/', { label: 'other', value: '' });
    const path = `/v1/agents/${agent}/core-memory/blocks/attach/${block.body.id}`;
    expect((await api.call('PATCH', path)).status).toBe(200);
    expect((await api.call('PATCH', path, '', { 'content-type': 'application/json' })).status).toBe(200);
  });
});

describe('a query', () => {
  test.each([
    ['/v1/agents/?lable=x', '?lable'],
    ['/v1/agents/?constructor=', '?constructor'],
    ['/v1/agents/?limit=0', '?limit'],
    ['/v1/agents/?limit=ten', '?limit'],
    ['/v1/agents/?order=up', '?order'],
    ['/v1/agents/?after=nonsense', '?after'],
    ['/v1/agents/?project_id=p', '?project_id'],
    ['/v1/agents/?order_by=name', '?order_by'],
    ['/v1/agents/?order_by=last_run_completion', '?order_by'],
    ['/v1/agents/?last_stop_reason=end_turn', '?last_stop_reason'],
    ['/v1/steps/?feedback=positive', '?feedback'],
    ['/v1/steps/?feedback=', '?feedback'],
    ['/v1/steps/?has_feedback=', '?has_feedback'],
    ['/v1/steps/?tags=', '?tags'],
    ['/v1/steps/?trace_ids=', '?trace_ids'],
    [`/v1/agents/agent-${UNKNOWN_UUID}/messages?group_id=`, '?group_id'],
    ['/v1/runs/?statuses=done', '?statuses.0'],
    ['/v1/messages/batches?order_by=id', '?order_by'],
    ['/v1/agents/?name=a%00b', '?name'],
    ['/v1/agents/?tags=red&tags=a%00b', '?tags'],
    ['/v1/steps/?model=%00', '?model'],
    ['/v1/tools/?search=%00', '?search'],
    ['/v1/steps/?start_date=2026-11-21T06:00:00%2B16:00', '?start_date'],
    ['/v1/steps/?end_date=2026-11-21T06:00:00-23:59', '?end_date'],
    ['/v1/steps/?end_date=0000-01-01', '?end_date'],
  ])('that is invalid is 422 and names the parameter: %s', async (url, path) => {
    const answer = await api.call('GET', url);
    expect(answer.status).toBe(422);
    expect(answer.body.errors[0].path).toBe(path);
    expect(answer.body.detail).toContain(path);
  });

  test.each([
    '2026-11-21',
    '2026-11-21T06:00:00',
    '2026-11-21T06:00:00-15:59',
    '0001-01-01T00:00:00%2B15:59',
    '9999-12-31T23:59:59-15:59',
  ])('accepts every time that the database can store: %s', async (time) => {
    expect((await api.call('GET', `/v1/steps/?start_date=${time}`)).status).toBe(200);
  });

  test.each([
    ['POST', '/v1/batches'],
    ['POST', `/v1/batches/job-${UNKNOWN_UUID}/revert`],
    ['PATCH', `/v1/messages/batches/job-${UNKNOWN_UUID}/cancel`],
    ['GET', `/v1/runs/run-${UNKNOWN_UUID}`],
    ['DELETE', `/v1/blocks/block-${UNKNOWN_UUID}`],
    ['GET', '/livez'],
    ['GET', '/openapi.json'],
  ] as const)('unknown to a route is 422 and names the first parameter: %s %s', async (method, url) => {
    const answer = await api.call(method, `${url}?force=true&more=`, method === 'POST' ? {} : undefined);
    expect([answer.status, answer.body.errors]).toEqual([
      422,
      [{ path: '?force', message: 'is not known here' }],
    ]);
    expect(answer.body.detail).toContain('?force');
  });

  test('does not change the answer of unknown routes', async () => {
    expect((await api.call('GET', '/v1/nothing?force=true')).status).toBe(404);
    expect((await api.call('GET', '/v1/nothing%00?force=%00')).status).toBe(404);
    expect((await api.call('DELETE', '/v1/messages/batches?force=true')).status).toBe(405);
    expect((await api.call('DELETE', '/v1/messages/batches?force=%00')).status).toBe(405);
  });

  test('treats empty values as absent, because clients send null this way', async () => {
    expect((await api.call('GET', '/v1/agents/?before=&after=&limit=')).status).toBe(200);
  });

  test('accepts a single value or several values of a list', async () => {
    await createAgent(api, { tags: ['red'] });
    await createAgent(api, { tags: ['blue'] });
    expect((await api.call('GET', '/v1/agents/?tags=red')).body).toHaveLength(1);
    expect((await api.call('GET', '/v1/agents/?tags=red&tags=blue')).body).toHaveLength(2);
    expect((await api.call('GET', '/v1/agents/?tags=red&tags=blue&match_all_tags=true')).body).toHaveLength(
      0,
    );
    expect((await api.call('GET', '/v1/tags/')).body).toEqual(['blue', 'red']);
    expect((await api.call('GET', '/v1/tags/?after=blue')).body).toEqual(['red']);
    expect((await api.call('GET', '/v1/tags/?limit=1')).headers['link']).toBe(
      '</v1/tags/?limit=1&after=blue>; rel="next"',
    );
  });
});

test('a NUL in the path is 422 and names its parameter', async () => {
  const agent = await createAgent(api);
  for (const method of ['GET', 'PATCH'] as const) {
    const path = `/v1/agents/${agent}/core-memory/blocks/a%00b`;
    const answer = await api.call(method, path, method === 'PATCH' ? { value: 'x' } : undefined);
    expect([answer.status, answer.body.errors[0].path]).toEqual([422, 'label']);
  }
});

test('an unexpected error shows nothing of the database or program', async () => {
  const broken = await openApi();
  await broken.database.pool.query('alter table agent rename column tags to labels');
  const answer = await broken.call('GET', '/v1/agents/');
  expect(answer.status).toBe(500);
  expect(answer.body.detail).toBe('An unknown error occurred. Look up the request id in the server log.');
  expect(JSON.stringify(answer.body)).not.toMatch(/column|select|node_modules|\.ts/);
  await broken.close();
});

test('readyz fails on an outdated database, and livez does not', async () => {
  const behind = await openApi();
  await behind.database.pool.query('delete from kysely_migration');
  expect((await behind.call('GET', '/readyz')).status).toBe(503);
  expect((await behind.call('GET', '/livez')).status).toBe(200);
  await behind.close();
});

test('readyz fails like a write on a read-only database, with the reason', async () => {
  const demoted = await openApi();
  const name = new URL(demoted.database.url).pathname.slice(1);
  await demoted.database.pool.query(`alter database ${name} set default_transaction_read_only = on`);
  // The setting applies to new sessions: end all, including this session.
  await demoted.database.pool
    .query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()`)
    .catch(() => undefined);
  const readOnly = {
    status: 503,
    body: { code: 'database_unreachable', detail: expect.stringContaining('takes no writes') as unknown },
  };
  await expect.poll(() => demoted.call('GET', '/readyz')).toMatchObject(readOnly);
  expect(await demoted.call('POST', '/v1/blocks/', { label: 'kept', value: '' })).toMatchObject(readOnly);
  expect((await demoted.call('GET', '/v1/blocks/')).status).toBe(200);
  await demoted.close();
});

test('a null answer is the JSON null', async () => {
  const block = await api.call('POST', '/v1/blocks/', { label: 'gone', value: '' });
  const answer = await api.app.inject({
    method: 'DELETE',
    url: `/v1/blocks/${block.body.id}`,
    headers: { authorization: `Bearer ${API_KEY}` },
  });
  expect([answer.statusCode, answer.body, answer.headers['content-type']]).toEqual([
    200,
    'null',
    'application/json; charset=utf-8',
  ]);
});

test('models can be looked up, with the provider of their answers', async () => {
  const models = await api.call('GET', '/v1/models/');
  expect(models.body).toContainEqual(
    expect.objectContaining({
      handle: 'anthropic/claude-haiku-4-5',
      provider_type: 'anthropic',
      answered_by: 'simulator',
    }),
  );
  expect((await api.call('GET', '/v1/models/?provider_name=openai')).body).toEqual([]);
  expect((await api.call('GET', '/v1/models/embedding')).body).toEqual([]);
});
