import { messageUuid, toWireId } from '@nightshift/agent-core';
import type { Database, DB } from '@nightshift/db';
import { Kysely, PostgresDialect } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, countRows, createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const submit = (requests: unknown, more: object = {}, headers: Record<string, string> = {}) =>
  api.call('POST', '/v1/messages/batches', { requests, ...more }, headers);

describe('submitting', () => {
  test('answers a Letta job at once, and wakes the workers after the commit', async () => {
    const agent_id = await createAgent(api);
    api.signals.length = 0;
    const { status, body } = await submit([{ agent_id, input: 'Go.' }], {
      callback_url: 'https://example.com/hook',
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^job-[0-9a-f-]{36}$/),
      status: 'running',
      job_type: 'batch',
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
      completed_at: null,
      state: 'running',
      state_reason: null,
      apply: 'auto',
      pilot: null,
      name: null,
      tags: [],
      stop_when: null,
      results_url: expect.stringMatching(/^\/v1\/batches\/job-[0-9a-f-]{36}\/results$/),
      retry_of: null,
      schedule_id: null,
      tick_due_at: null,
      expires_at: null,
      counts: {
        total: 1,
        accepted: 1,
        skipped: {},
        queued: 0,
        in_progress: 1,
        retrying: 0,
        requires_action: 0,
        completed: 0,
        failed: 0,
        cancelled: 0,
        expired: 0,
      },
      progress: {
        phase: 'running',
        waiting_reason: null,
        ended: 0,
        total: 1,
        percent: 0,
        runs_per_second: null,
        calls: { done: 0, failed: 0, unknown: 0, open: 0 },
        steps_at_provider: 0,
        oldest_step_sent_at: null,
        next_look_at: null,
        eta: null,
        version: 0,
      },
      usage: {
        steps: 0,
        tool_calls: 0,
        failed_tool_calls: 0,
        unknown_tool_calls: 0,
        input_tokens: 0,
        output_tokens: 0,
        cache_write_tokens: 0,
        cache_read_tokens: 0,
        cost_usd: '0.00',
      },
      limits: {
        max_cost_usd: null,
        max_output_tokens: null,
        reserved_usd: null,
        reserved_output_tokens: null,
        overshoots: null,
        cut_offs: null,
      },
      expected_cost_usd: null,
      estimate_error: null,
      metadata: null,
      callback_url: 'https://example.com/hook',
      callback_events: [],
      callback_sent_at: null,
      callback_status_code: null,
      callback_error: null,
      background: false,
      agent_id: null,
      stop_reason: null,
      ttft_ns: null,
      total_duration_ns: null,
      created_by_id: 'user-00000000-0000-4000-8000-000000000000',
      last_updated_by_id: 'user-00000000-0000-4000-8000-000000000000',
      user_id: 'user-00000000-0000-4000-8000-000000000000',
    });
    expect(api.signals).toEqual([{ kind: 'compose', id: '*' }]);
    expect((await api.call('GET', `/v1/messages/batches/${body.id}`)).body).toEqual(body);
    expect((await api.call('GET', `/v1/batches/${body.id}/`)).body).toEqual(body);
  });

  test('accepts messages with roles, parts, names and otids, and ignored Letta fields', async () => {
    const agent_id = await createAgent(api);
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
    const detailed = { ...image, source: { ...image.source, detail: 'high' } };
    const { body } = await submit([
      {
        agent_id,
        max_steps: 3,
        custom_id: 'mine',
        use_assistant_message: false,
        include_return_message_types: null,
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Look:', signature: null }, detailed],
            batch_item_id: null,
            group_id: null,
            otid: 'o-1',
            name: 'Ann',
          },
          { role: 'assistant', content: 'I see.', type: 'message', sender_id: null },
          { role: 'user', content: 'What?' },
        ],
      },
    ]);
    const messages = await api.call('GET', `/v1/messages/batches/${body.id}/messages?order=asc`);
    expect(
      messages.body.messages.map((message: Record<string, unknown>) => [message.role, message.content]),
    ).toEqual([
      [
        'user',
        [
          { type: 'text', text: 'Look:' },
          { type: 'image', source: image.source },
        ],
      ],
      ['assistant', [{ type: 'text', text: 'I see.' }]],
      ['user', [{ type: 'text', text: 'What?' }]],
    ]);
    expect(messages.body.messages[0]).toMatchObject({ agent_id, otid: 'o-1', name: 'Ann', tool_calls: null });
    const runs = await api.call('GET', `/v1/runs/?batch_id=${body.id}`);
    expect(runs.body).toMatchObject([
      { agent_id, status: 'created', custom_id: 'mine', limits: { max_steps: 3 } },
    ]);
  });

  test('makes text well-formed, because the provider refuses requests with a lone surrogate', async () => {
    const agent_id = await createAgent(api);
    const image = { type: 'image', source: { type: 'url', url: 'https://example.com/\ud83d.png' } };
    const data = { type: 'image', source: { type: 'base64', media_type: 'image/\ud83d', data: '\ude00' } };
    const { body } = await submit([
      { agent_id, messages: [{ role: 'user', content: [{ type: 'text', text: '\ude00' }, image, data] }] },
      { agent_id: await createAgent(api), input: 'a\ud83db 😀' },
    ]);
    const { messages } = (await api.call('GET', `/v1/messages/batches/${body.id}/messages?order=asc`)).body;
    expect(messages.map(({ content }: Record<string, unknown>) => content)).toEqual([
      [
        { type: 'text', text: '\ufffd' },
        { type: 'image', source: { ...image.source, url: 'https://example.com/\ufffd.png' } },
        { type: 'image', source: { ...data.source, media_type: 'image/\ufffd', data: '\ufffd' } },
      ],
      [{ type: 'text', text: 'a\ufffdb 😀' }],
    ]);
  });

  test('gives a run ten steps by default', async () => {
    const agent_id = await createAgent(api);
    const { body } = await submit([{ agent_id, input: 'Go.' }]);
    const runs = await api.call('GET', `/v1/runs/?batch_id=${body.id}`);
    expect(runs.body[0].limits.max_steps).toBe(10);
  });

  test("answers the caller's metadata unchanged, under any names", async () => {
    const agent_id = await createAgent(api);
    const metadata = { night: 7, constructor: 'x', state: 'mine', total: { of: [1, null] } };
    const { body } = await submit([{ agent_id, input: 'Go.' }], { metadata });
    expect(body.metadata).toEqual(metadata);
    expect((await api.call('GET', `/v1/batches/${body.id}`)).body.metadata).toEqual(metadata);
    expect((await submit([{ agent_id, input: 'Go.' }], { metadata: {} })).body.metadata).toEqual({});
  });

  test('takes several requests of an agent: its runs take turns, an isolated run does not wait', async () => {
    const agent_id = await createAgent(api);
    const { body } = await submit([
      { agent_id, input: 'one' },
      { agent_id, input: 'two' },
      { agent_id, input: 'three', conversation: 'isolated' },
    ]);
    const runs = await api.call('GET', `/v1/runs/?batch_id=${body.id}&order=asc`);
    expect(runs.body.map((run: { state: string }) => run.state)).toEqual(['ready', 'queued', 'ready']);
    expect(runs.body[2].conversation_id).not.toBe(runs.body[0].conversation_id);
    expect(body.counts).toMatchObject({ total: 3, queued: 1, in_progress: 2 });
  });
});

test('gives a run the earlier deadline of itself and its batch', async () => {
  const agent_id = await createAgent(api);
  const requests = [null, '2999-11-21T07:00:00+02:00', '2999-11-22T00:00:00Z'].map((deadline) => ({
    agent_id,
    input: 'Hi.',
    conversation: 'isolated',
    deadline,
  }));
  const { body } = await api.call('POST', '/v1/batches', { requests, deadline: '2999-11-21T06:00:00Z' });
  const runs = await api.call('GET', `/v1/runs?batch_id=${body.id}&order=asc`);
  expect(runs.body.map((run: { deadline: string }) => run.deadline)).toEqual([
    '2999-11-21T06:00:00.000Z',
    '2999-11-21T05:00:00.000Z',
    '2999-11-21T06:00:00.000Z',
  ]);
});

test("lists up to a hundred past deadlines with the database's time, also in estimates", async () => {
  const request = { agent_id: await createAgent(api), input: 'Hi.', deadline: '2025-11-21T06:00:00Z' };
  const batch = { requests: Array(200).fill(request), deadline: '2025-11-21T06:00:00Z' };
  for (const path of ['/v1/batches', '/v1/batches/estimate']) {
    const { status, body } = await api.call('POST', path, batch);
    expect([status, body.errors.length]).toEqual([422, 100]);
    expect(body.errors[1].path).toBe('/requests/0/deadline');
    expect(body.detail).toMatch(
      /^\/deadline has passed: the database's clock says 20\S+Z\. Nothing was stored\. /,
    );
  }
});

describe('an invalid batch stores nothing', () => {
  let agent_id = '';
  beforeAll(async () => {
    agent_id = await createAgent(api);
  });
  const ok = () => ({ agent_id, input: 'Go.' });

  test.each<[string, (good: object) => unknown, number, string]>([
    ['an empty list', () => ({ requests: [] }), 400, '/requests'],
    ['no list', () => ({}), 422, '/requests'],
    ['a value that is not a list', () => ({ requests: 'x' }), 422, '/requests'],
    [
      'a malformed agent id',
      (good) => ({ requests: [good, { ...good, agent_id: 'agent-1' }] }),
      422,
      '/requests/1/agent_id',
    ],
    [
      'an unknown agent',
      (good) => ({ requests: [good, { ...good, agent_id: `agent-${UNKNOWN_UUID}` }] }),
      404,
      '/requests/1/agent_id',
    ],
    ['neither messages nor input', () => ({ requests: [{ agent_id }] }), 422, '/requests/0'],
    [
      'both messages and input',
      (good) => ({ requests: [{ ...good, messages: [{ role: 'user', content: 'x' }] }] }),
      422,
      '/requests/0',
    ],
    [
      'an empty list of messages',
      () => ({ requests: [{ agent_id, messages: [] }] }),
      422,
      '/requests/0/messages',
    ],
    ['empty text', () => ({ requests: [{ agent_id, input: ' ' }] }), 422, '/requests/0/input'],
    [
      'a tool result',
      () => ({ requests: [{ agent_id, messages: [{ role: 'tool', content: 'x' }] }] }),
      422,
      '/requests/0/messages/0/role',
    ],
    [
      'an unknown part',
      () => ({ requests: [{ agent_id, messages: [{ role: 'user', content: [{ type: 'video' }] }] }] }),
      422,
      '/requests/0/messages/0/content/0/type',
    ],
    [
      'an input that ends with an assistant message',
      () => ({
        requests: [
          {
            agent_id,
            messages: [
              { role: 'user', content: 'x' },
              { role: 'assistant', content: 'y' },
            ],
          },
        ],
      }),
      422,
      '/requests/0/messages/1/role',
    ],
    [
      'an approval',
      () => ({ requests: [{ agent_id, messages: [{ type: 'approval', role: 'user', content: 'x' }] }] }),
      422,
      '/requests/0/messages/0/type',
    ],
    ['no steps', (good) => ({ requests: [{ ...good, max_steps: 0 }] }), 422, '/requests/0/max_steps'],
    [
      'too many steps',
      (good) => ({ requests: [{ ...good, max_steps: 1001 }] }),
      422,
      '/requests/0/max_steps',
    ],
    ['a misspelt field', (good) => ({ requests: [{ ...good, max_step: 5 }] }), 422, '/requests/0/max_step'],
    [
      'a misspelt field of a message',
      (good) => ({
        requests: [{ ...good, input: null, messages: [{ role: 'user', content: 'x', nme: 'Ann' }] }],
      }),
      422,
      '/requests/0/messages/0/nme',
    ],
    [
      'an unknown field of a content part',
      (good) => ({ requests: [{ ...good, input: [{ type: 'text', text: 'x', cache_control: {} }] }] }),
      422,
      '/requests/0/input/0/cache_control',
    ],
    [
      'a client tool without a name',
      (good) => ({ requests: [{ ...good, client_tools: [{}] }] }),
      422,
      '/requests/0/client_tools/0/name',
    ],
    [
      'a client tool with a schema that the provider refuses',
      (good) => ({ requests: [{ ...good, client_tools: [{ name: 'ask', parameters: { type: 'array' } }] }] }),
      422,
      '/requests/0/client_tools/0/parameters',
    ],
    ['a deadline that is not a time', (good) => ({ requests: [good], deadline: 'soon' }), 422, '/deadline'],
    [
      'a deadline of a request without a time zone',
      (good) => ({ requests: [{ ...good, deadline: '2999-11-21T06:00:00' }] }),
      422,
      '/requests/0/deadline',
    ],
    [
      'a deadline with an invalid time zone',
      (good) => ({ requests: [good], deadline: '2999-11-21T06:00:00+16:00' }),
      422,
      '/deadline',
    ],
    [
      'a deadline of a request in the year 0',
      (good) => ({ requests: [{ ...good, deadline: '0000-11-21T06:00:00Z' }] }),
      422,
      '/requests/0/deadline',
    ],
    [
      'very many parts, all wrong',
      () => ({ requests: [{ agent_id, input: Array(10_000).fill({ type: 'video' }) }] }),
      422,
      '/requests/0/input/0/type',
    ],
    [
      'too many parts in a message',
      () => ({ requests: [{ agent_id, input: Array(200_000).fill({ type: 'video' }) }] }),
      422,
      '/requests/0/input',
    ],
    [
      'an unknown response format',
      (good) => ({ requests: [{ ...good, response_format: { type: 'grammar' } }] }),
      422,
      '/requests/0/response_format/type',
    ],
    [
      'an unusable response format schema',
      (good) => ({
        requests: [
          { ...good, response_format: { type: 'json_schema', json_schema: { schema: { type: 'x' } } } },
        ],
      }),
      422,
      '/requests/0/response_format/json_schema/schema',
    ],
    [
      'a custom_id without storable characters',
      (good) => ({ requests: [{ ...good, custom_id: '\0' }] }),
      422,
      '/requests/0/custom_id',
    ],
    [
      'a text without storable characters',
      (good) => ({ requests: [{ ...good, input: ' \0 ' }] }),
      422,
      '/requests/0/input',
    ],
    [
      'a repeated custom_id',
      (good) => ({
        requests: [
          { ...good, custom_id: 'a' },
          { ...good, custom_id: 'a' },
        ],
      }),
      422,
      '/requests/1/custom_id',
    ],
    [
      'a callback that is not a URL',
      (good) => ({ requests: [good], callback_url: 'x' }),
      422,
      '/callback_url',
    ],
    [
      'a callback with a NUL',
      (good) => ({ requests: [good], callback_url: 'https://x.org/\0' }),
      422,
      '/callback_url',
    ],
    [
      'a callback with a name and password',
      (good) => ({ requests: [good], callback_url: 'https://%E0%A4%A@x.org/' }),
      422,
      '/callback_url',
    ],
    [
      'a callback by ftp',
      (good) => ({ requests: [good], callback_url: 'ftp://x.org/' }),
      422,
      '/callback_url',
    ],
  ])('%s', async (_name, make, status, path) => {
    const before = await countRows(api);
    api.signals.length = 0;
    const answer = await api.call('POST', '/v1/messages/batches', make(ok()));
    expect([answer.status, answer.body.errors[0]?.path]).toEqual([status, path]);
    expect(await countRows(api)).toEqual(before);
    expect(api.signals).toEqual([]);
  });

  test('a deleted agent', async () => {
    const gone = await createAgent(api);
    await api.call('DELETE', `/v1/agents/${gone}`);
    const before = await countRows(api);
    expect((await submit([ok(), { agent_id: gone, input: 'x' }])).status).toBe(404);
    expect(await countRows(api)).toEqual(before);
  });

  test('a client tool with the name of another tool, also in estimates', async () => {
    const requests = [ok(), { ...ok(), client_tools: [{ name: 'memory_insert' }] }];
    const message =
      "has a duplicate tool 'memory_insert': the agent, or the request itself, has a tool of that name.";
    for (const path of ['/v1/batches', '/v1/batches/estimate']) {
      const { status, body } = await api.call('POST', path, { requests });
      expect([status, body.errors]).toEqual([422, [{ path: '/requests/1/client_tools', message }]]);
    }
  });

  test('an agent that lost the tool of a rule, named at its place, also in estimates', async () => {
    const loose = await createAgent(api, {
      tool_rules: [
        { type: 'exit_loop', tool_name: 'memory_insert' },
        { type: 'exit_loop', tool_name: 'memory_insert' },
        { type: 'run_first', tool_name: 'memory_insert' },
      ],
    });
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_insert')).body;
    await api.call('PATCH', `/v1/agents/${loose}/tools/detach/${tool.id}`);
    const before = await countRows(api);
    const message =
      'has unusable tool rules: /tool_rules/2/tool_name: The tool that must run first, ' +
      "'memory_insert', is not attached; attach it or drop the rule.";
    const template = { agent_id: loose, input: 'x' };
    for (const path of ['/v1/batches', '/v1/batches/estimate']) {
      const some = await api.call('POST', path, { requests: [ok(), template, template] });
      expect([some.status, some.body.errors]).toEqual([422, [{ path: '/requests/1/agent_id', message }]]);
      const inputs = [{ custom_id: 'a', variables: {} }];
      const filled = await api.call('POST', path, { template, inputs });
      expect([filled.status, filled.body.errors]).toEqual([422, [{ path: '/template/agent_id', message }]]);
    }
    expect(await countRows(api)).toEqual(before);
  });
});

describe('a large batch', () => {
  test('of 5,000 requests takes one transaction and a bounded number of statements', async () => {
    const statements: string[] = [];
    const counted: Database = new Kysely<DB>({
      dialect: new PostgresDialect({ pool: api.database.pool }),
      log: (event) => {
        statements.push(event.query.sql);
      },
    });
    const app = buildServer({
      db: counted,
      bell: { ring: () => Promise.resolve() },
      apiKey: API_KEY,
      model: 'simulator',
    });
    const agents: string[] = [];
    for (let i = 0; i < 20; i++) agents.push(await createAgent(api));
    const requests = Array.from({ length: 5_000 }, (_, index) => ({
      agent_id: agents[index % 20],
      input: `Task ${index}.`,
      ...(index % 2 === 0 ? { conversation: 'isolated' } : {}),
    }));
    await app.ready();
    statements.length = 0;
    const answer = await app.inject({
      method: 'POST',
      url: '/v1/messages/batches',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      payload: JSON.stringify({ requests }),
    });
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toMatchObject({ counts: { total: 5_000 } });
    expect(statements.length).toBeLessThanOrEqual(18);
    expect(statements.filter((statement) => statement === 'begin')).toHaveLength(1);
  });

  test('beyond 256 MB is refused by its announced length', async () => {
    const answer = await api.app.inject({
      method: 'POST',
      url: '/v1/messages/batches',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'content-type': 'application/json',
        'content-length': String(256 * 1024 * 1024 + 1),
      },
      payload: '{}',
    });
    expect(answer.statusCode).toBe(413);
    expect(answer.json().detail).toMatch(/^The body is larger than the 256 MiB that this route accepts\. /);
  });
});

describe('reading', () => {
  test('answers 422 for malformed ids and 404 for unknown ids', async () => {
    for (const path of ['', '/messages']) {
      expect((await api.call('GET', `/v1/messages/batches/job-1${path}`)).status).toBe(422);
      expect((await api.call('GET', `/v1/messages/batches/job-${UNKNOWN_UUID}${path}`)).status).toBe(404);
    }
    expect((await api.call('PATCH', '/v1/messages/batches/nonsense/cancel')).status).toBe(422);
    expect((await api.call('PATCH', `/v1/messages/batches/job-${UNKNOWN_UUID}/cancel`)).status).toBe(404);
  });

  test('answers counts, tokens and cost as sums of the tally', async () => {
    const agent_id = await createAgent(api);
    const alone = { agent_id, input: 'Go.', conversation: 'isolated' };
    const { body } = await submit([alone, alone, alone]);
    const batch_id = body.id.slice(4);
    for (const slot of [0, 1]) {
      await api.database.db
        .insertInto('batch_tally')
        .values({
          batch_id,
          slot,
          project_id: PROJECT_ID,
          queued: slot,
          completed: slot,
          failed: 1 - slot,
          steps: 2,
          tool_calls: 3,
          failed_tool_calls: slot,
          unknown_tool_calls: slot,
          input_tokens: 100,
          output_tokens: 5,
          cache_read_tokens: 7,
          cost_nanousd: 1_234_500_000,
        })
        .execute();
    }
    expect((await api.call('GET', `/v1/messages/batches/${body.id}`)).body).toMatchObject({
      counts: { total: 3, queued: 1, in_progress: 0, completed: 1, failed: 1 },
      usage: {
        steps: 4,
        tool_calls: 6,
        failed_tool_calls: 1,
        unknown_tool_calls: 1,
        input_tokens: 200,
        output_tokens: 10,
        cache_read_tokens: 14,
        cost_usd: '2.469',
      },
    });
  });

  test('lists all batches, newest first, in both directions without loss', async () => {
    const fresh = await openApi();
    const agent_id = await createAgent(fresh);
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) {
      const { body } = await fresh.call('POST', '/v1/batches', { requests: [{ agent_id, input: `${i}` }] });
      ids.push(body.id);
    }
    // In every final state.
    for (const [index, state] of ['completed', 'failed', 'cancelled'].entries()) {
      await fresh.database.pool.query(
        'update batch set state = $1, completed_at = app_now(), cancel_requested_at = app_now() where id = $2',
        [state, ids[index]!.slice(4)],
      );
    }
    // Equal times: the order must still be total.
    await fresh.database.pool.query(`update batch set created_at = date_trunc('hour', created_at)`);
    const expected = ids.toSorted().reverse();
    const forwards: string[] = [];
    let after = '';
    for (;;) {
      const { body, headers } = await fresh.call('GET', `/v1/messages/batches?limit=3&after=${after}`);
      if (body.length === 0) {
        expect(headers.link).toBeUndefined();
        break;
      }
      forwards.push(...body.map((job: { id: string }) => job.id));
      after = body.at(-1).id;
    }
    expect(forwards).toEqual(expected);
    const backwards: string[] = [];
    let before = expected.at(-1)!;
    for (;;) {
      const { body } = await fresh.call('GET', `/v1/messages/batches?limit=3&before=${before}`);
      if (body.length === 0) break;
      backwards.unshift(...body.map((job: { id: string }) => job.id));
      before = body[0].id;
    }
    expect(backwards).toEqual(expected.slice(0, -1));
    const page = await fresh.call('GET', `/v1/messages/batches?limit=3&after=${expected[0]}`);
    expect(page.headers.link).toBe(
      `</v1/messages/batches?limit=3&after=${expected[3]}>; rel="next", </v1/messages/batches?limit=3&before=${expected[1]}>; rel="prev"`,
    );
    expect(
      (await fresh.call('GET', '/v1/batches?order=asc&limit=2')).body.map((job: { id: string }) => job.id),
    ).toEqual(ids.toSorted().slice(0, 2));
    await fresh.close();
  });
});

test('an input that fits no context window is refused with its size, and nothing is stored', async () => {
  const agent_id = await createAgent(api);
  const before = await countRows(api);
  const answer = await submit([
    { agent_id, input: 'short' },
    { agent_id, input: 'x'.repeat(2_000_000) },
  ]);
  expect([answer.status, answer.body.errors[0].path]).toEqual([422, '/requests/1']);
  expect(answer.body.detail).toMatch(
    /^\/requests\/1 has a message of 20000\d\d bytes, which are at least 25000\d tokens; the context window of agent-\S+ holds 128000: /,
  );
  expect(await countRows(api)).toEqual(before);
});

describe('the messages of a batch', () => {
  test('come by request, page both ways without loss, and filter by agent', async () => {
    const agents = [await createAgent(api), await createAgent(api), await createAgent(api)];
    const { body } = await submit(
      agents.map((agent_id, index) => ({
        agent_id,
        messages: [
          { role: 'user', content: `${index}a` },
          { role: 'user', content: `${index}b` },
        ],
      })),
    );
    const path = `/v1/messages/batches/${body.id}/messages`;
    const textsOf = (answer: { body: { messages: { content: { text: string }[] }[] } }) =>
      answer.body.messages.map((message) => message.content[0]!.text);
    expect(textsOf(await api.call('GET', `${path}?order=asc`))).toEqual(['0a', '0b', '1a', '1b', '2a', '2b']);
    expect(textsOf(await api.call('GET', path))).toEqual(['2b', '2a', '1b', '1a', '0b', '0a']);
    expect(textsOf(await api.call('GET', `${path}?agent_id=${agents[1]}&order=asc`))).toEqual(['1a', '1b']);
    expect(textsOf(await api.call('GET', `${path}?agent_id=agent-${UNKNOWN_UUID}`))).toEqual([]);

    const all: string[] = [];
    let after = '';
    for (;;) {
      const page = await api.call('GET', `${path}?limit=2&after=${after}`);
      if (page.body.messages.length === 0) break;
      all.push(...textsOf(page));
      after = page.body.messages.at(-1).id;
    }
    expect(all).toEqual(['2b', '2a', '1b', '1a', '0b', '0a']);
    const last = (await api.call('GET', `${path}?limit=1&order=asc`)).body.messages[0].id;
    expect(textsOf(await api.call('GET', `${path}?limit=2&before=${last}`))).toEqual(['1a', '0b']);
    expect(textsOf(await api.call('GET', `${path}?limit=2&cursor=${last}&sort_descending=false`))).toEqual([
      '0b',
      '1a',
    ]);
    const older = await api.call('GET', `${path}?limit=2&cursor=${last}&sort_descending=false`);
    const [, prev = ''] = /, <([^>]+)>; rel="prev"$/.exec(older.headers.link!) ?? [];
    expect(textsOf(await api.call('GET', prev))).toEqual(['0a']);
    const foreign = toWireId('message', messageUuid('01890000-0000-7000-8000-000000000000', 5));
    expect(await api.call('GET', `${path}?order=asc&limit=1&after=${foreign}`)).toMatchObject({
      status: 422,
      body: { errors: [{ path: '?after', message: 'names no item of this list' }] },
    });
  });

  test('of a waiting run come when it starts', async () => {
    const agent_id = await createAgent(api);
    const { body } = await submit([
      { agent_id, input: 'first' },
      { agent_id, input: 'second' },
    ]);
    const { messages } = (await api.call('GET', `/v1/batches/${body.id}/messages`)).body;
    expect(messages).toHaveLength(1);
  });
});

describe('cancelling', () => {
  test('shows at once, and wakes the worker that completes it', async () => {
    const agent_id = await createAgent(api);
    const { body } = await submit([{ agent_id, input: 'Go.' }]);
    api.signals.length = 0;
    const cancelled = await api.call('PATCH', `/v1/messages/batches/${body.id}/cancel`);
    expect(cancelled.status).toBe(200);
    expect(cancelled.body).toMatchObject({
      id: body.id,
      status: 'cancelled',
      state: 'cancelling',
      completed_at: expect.stringMatching(/Z$/),
      total_duration_ns: expect.any(Number),
    });
    expect(api.signals).toEqual([{ kind: 'cancel', id: body.id.slice(4) }]);
    expect((await api.call('GET', `/v1/messages/batches/${body.id}`)).body.status).toBe('cancelled');
    const row = await api.database.db
      .selectFrom('batch')
      .select(['state', 'cancel_requested_at', 'next_due_at'])
      .where('id', '=', body.id.slice(4))
      .executeTakeFirstOrThrow();
    expect(row.state).toBe('cancelling');
    expect(row.next_due_at).not.toBeNull();
  });

  test.each([
    ['completed', 'completed'],
    ['failed', 'failed'],
    ['cancelled', 'cancelled'],
  ])('changes nothing in a %s batch, without an error', async (state, status) => {
    const agent_id = await createAgent(api);
    const { body } = await submit([{ agent_id, input: 'Go.' }]);
    await api.database.pool.query(
      `update batch set state = $1, completed_at = app_now(), cancel_requested_at = app_now() where id = $2`,
      [state, body.id.slice(4)],
    );
    const before = await api.call('GET', `/v1/messages/batches/${body.id}`);
    api.signals.length = 0;
    const again = await api.call('PATCH', `/v1/messages/batches/${body.id}/cancel`);
    expect(again.status).toBe(200);
    expect(again.body).toEqual(before.body);
    expect(again.body.status).toBe(status);
    expect(api.signals).toEqual([]);
  });
});
