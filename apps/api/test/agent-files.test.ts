import { gzipSync } from 'node:zlib';
import { createNightshift } from '@nightshift/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { API_KEY, countRows, createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const MODEL = 'anthropic/claude-haiku-4-5';

/** Sends a file as a form. */
async function importFile(file: unknown, fields: Record<string, string> = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  if (file !== undefined)
    form.set('file', new Blob([typeof file === 'string' ? file : JSON.stringify(file)]), 'agent.af');
  const request = new Request('http://localhost', { method: 'POST', body: form });
  const answer = await api.app.inject({
    method: 'POST',
    url: '/v1/agents/import',
    headers: {
      authorization: `Bearer ${API_KEY}`,
      'content-type': request.headers.get('content-type') ?? '',
    },
    payload: Buffer.from(await request.arrayBuffer()),
  });
  return { status: answer.statusCode, body: answer.json() };
}

async function importLines(lines: readonly unknown[] | Buffer, headers: Record<string, string> = {}) {
  const payload = Buffer.isBuffer(lines) ? lines : lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const answer = await api.app.inject({
    method: 'POST',
    url: '/v1/agents/import',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl', ...headers },
    payload,
  });
  return { status: answer.statusCode, body: answer.json() };
}

const exportFile = async (id: string, query = '') =>
  (await api.call('GET', `/v1/agents/${id}/export${query}`)).body;

/** The agent without ids and times, which an import makes anew. */
async function comparable(id: string): Promise<unknown> {
  const { body } = await api.call('GET', `/v1/agents/${id}`);
  const text = JSON.stringify(body, (key, value: unknown) =>
    ['id', 'agent_id', 'message_ids', 'created_at', 'updated_at', 'revision'].includes(key)
      ? undefined
      : value,
  );
  return JSON.parse(text);
}

const messagesOf = async (id: string) => {
  const { body } = await api.call('GET', `/v1/agents/${id}/messages?order=asc`);
  return body.map((message: Record<string, unknown>) => [
    message['message_type'],
    message['content'],
    message['date'],
  ]);
};

const llm_config = {
  model: 'claude-haiku-4-5',
  handle: MODEL,
  model_endpoint_type: 'anthropic',
  model_endpoint: 'https://api.anthropic.com/v1',
  provider_name: 'anthropic',
  provider_category: 'base',
  context_window: 90_000,
  max_tokens: 4_096,
  temperature: 0.7,
  put_inner_thoughts_in_kwargs: false,
};

const said = (role: string, text: string, extra: object = {}) => ({
  role,
  content: [{ type: 'text', text }],
  name: null,
  otid: null,
  model: null,
  tool_calls: null,
  tool_call_id: null,
  tool_returns: null,
  created_at: '2026-03-01T10:00:00.123456+00:00',
  ...extra,
});

const call = (name: string, args: object) => ({
  id: 'call_1',
  type: 'function',
  function: { name, arguments: JSON.stringify(args) },
});

/** Two agents with a shared block, as Letta writes them. */
const letta = () => ({
  agents: ['Ann', 'Bob'].map((name, index) => ({
    id: `agent-${index}`,
    name,
    system: 'Be kind.',
    agent_type: 'letta_v1_agent',
    description: null,
    metadata: null,
    llm_config,
    embedding_config: { embedding_model: 'text-embedding-3-small', embedding_dim: 1_536 },
    model: null,
    embedding: null,
    tags: ['b', 'a'],
    tool_ids: ['tool-0', 'tool-1'],
    block_ids: ['block-0', `block-${index + 1}`],
    tool_rules: [{ tool_name: 'roll_dice', type: 'exit_loop', prompt_template: null }],
    source_ids: ['source-0'],
    folder_ids: null,
    identity_ids: ['identity-1'],
    memory_blocks: [],
    tools: [],
    group_ids: [],
    files_agents: [],
    include_base_tools: false,
    include_base_tool_rules: false,
    message_buffer_autoclear: false,
    tool_exec_environment_variables: { API_TOKEN: 'secret' },
    timezone: 'Europe/Berlin',
    in_context_message_ids: ['message-0', 'message-2'],
    messages:
      index > 0
        ? []
        : [
            { id: 'message-0', ...said('system', 'Be kind. <memory_blocks>') },
            {
              id: 'message-1',
              ...said('user', JSON.stringify({ type: 'user_message', message: 'Hi.', time: '10:00' })),
            },
            {
              id: 'message-2',
              ...said('assistant', 'thinks', { tool_calls: [call('send_message', { message: 'Hello.' })] }),
            },
            { id: 'message-3', ...said('tool', '{"status":"OK"}') },
            {
              id: 'message-4',
              ...said('user', JSON.stringify({ type: 'heartbeat', reason: 'go', time: '10:01' })),
            },
            { id: 'message-5', ...said('assistant', 'Rolling.', { tool_calls: [call('roll_dice', {})] }) },
            { id: 'message-6', ...said('user', 'Look.', { content: [{ type: 'image', source: {} }] }) },
          ],
  })),
  groups: [{ id: 'group-0', agent_ids: ['agent-0'], description: 'both' }],
  blocks: [
    {
      id: 'block-0',
      label: 'team',
      value: 'We.',
      limit: 100,
      description: null,
      metadata: {},
      read_only: false,
    },
    { id: 'block-1', label: 'human', value: 'Ann.', limit: 200, description: null, metadata: {} },
    { id: 'block-2', label: 'human', value: 'Bob.', limit: 200, description: 'Who.', metadata: { a: 1 } },
  ],
  files: [],
  sources: [{ id: 'source-0', name: 'docs' }],
  tools: [
    { id: 'tool-0', name: 'memory_insert', tool_type: 'letta_core', source_code: null },
    { id: 'tool-1', name: 'roll_dice', tool_type: 'custom', source_code: 'def roll_dice(): ...' },
  ],
  mcp_servers: [{ id: 'mcp_server-0', server_type: 'sse', server_name: 'x' }],
  metadata: { revision_id: 'abc' },
  created_at: '2026-03-01T10:00:00Z',
});

/** An agent in Letta's older format. */
const legacy = () => ({
  agent_type: 'memgpt_agent',
  core_memory: [
    {
      label: 'persona',
      value: 'A helper.',
      limit: 5_000,
      description: 'Me.',
      is_template: false,
      template_name: null,
      created_at: '',
      updated_at: '',
    },
  ],
  created_at: '2025-04-02T02:19:15+00:00',
  updated_at: '2025-04-02T02:19:15+00:00',
  description: 'Old.',
  embedding_config: { embedding_model: 'letta-free' },
  in_context_message_indices: [0, 1],
  llm_config,
  message_buffer_autoclear: false,
  messages: [
    { ...said('system', 'prompt'), tool_calls: [], tool_returns: [] },
    { ...said('user', 'Hi.', { created_at: '2025-04-02T02:19:15' }), tool_calls: [], tool_returns: [] },
  ],
  metadata_: { k: 'v' },
  multi_agent_group: null,
  name: 'Old One',
  system: 'Be old.',
  tags: [{ tag: 'old' }],
  tool_exec_environment_variables: [],
  tool_rules: [{ tool_name: 'memory_insert', type: 'continue_loop' }],
  tools: [{ name: 'memory_insert', tool_type: 'letta_core', json_schema: {}, tags: [] }],
  version: '0.6.47',
});

test('a file of Letta makes its agents, its shared block stays shared, and every lost part is named', async () => {
  const { status, body } = await importFile(letta());
  expect([status, body]).toMatchObject([200, { agent_ids: [expect.any(String), expect.any(String)] }]);
  const [ann, bob] = await Promise.all(
    body.agent_ids.map(async (id: string) => (await api.call('GET', `/v1/agents/${id}`)).body),
  );
  expect(ann).toMatchObject({
    name: 'Ann',
    system: 'Be kind.',
    model: MODEL,
    timezone: 'Europe/Berlin',
    tags: ['b', 'a'],
    tool_rules: [],
    llm_config: { context_window: 90_000, max_tokens: 4_096 },
    secrets: [{ key: 'API_TOKEN' }],
  });
  expect(ann.tools.map(({ name }: { name: string }) => name)).toEqual(['memory_insert']);
  expect(
    ann.blocks.map(({ label, value, limit, description }: Record<string, unknown>) => [
      label,
      value,
      limit,
      description,
    ]),
  ).toEqual([
    ['team', 'We.', 100, null],
    ['human', 'Ann.', 200, null],
  ]);
  expect(bob.blocks[0].id).toBe(ann.blocks[0].id);
  expect(bob.blocks[1]).toMatchObject({ value: 'Bob.', description: 'Who.', metadata: { a: 1 } });
  expect(await messagesOf(ann.id)).toEqual([
    ['user_message', 'Hi.', '2026-03-01T10:00:00+00:00'],
    ['assistant_message', 'Hello.', '2026-03-01T10:00:00+00:00'],
    ['assistant_message', 'Rolling.', '2026-03-01T10:00:00+00:00'],
  ]);
  const perAgent = (index: number) =>
    ['llm_config/temperature', 'embedding_config', 'source_ids', 'identity_ids', 'tool_rules/0'].map(
      (field) => `/agents/${index}/${field}`,
    );
  const paths = [
    ...['/groups/0', '/sources/0', '/mcp_servers/0', '/tools/1'],
    ...perAgent(0),
    ...perAgent(1),
    ...['0', '2/content/0', '3', '4', '5/tool_calls/0', '6/content/0'].map(
      (place) => `/agents/0/messages/${place}`,
    ),
  ];
  expect(body.left_out.map(({ path }: { path: string }) => path).toSorted()).toEqual(paths.toSorted());
  expect(body.left_out_total).toBe(paths.length);
  expect(body.left_out.every(({ reason }: { reason: string }) => reason.length > 10)).toBe(true);
});

test('strict refuses the file with every part that would be left out, and stores nothing', async () => {
  const before = await countRows(api);
  const { status, body } = await importFile(letta(), { strict: 'true' });
  expect([status, body.code]).toEqual([422, 'validation_failed']);
  expect(body.errors_total).toBe(20);
  expect(await countRows(api)).toEqual(before);
});

test('a file of the older format makes its agent, under the name and model of the caller', async () => {
  const { body } = await importFile(
    {
      ...legacy(),
      llm_config: { ...llm_config, model: 'gpt-4o', handle: 'openai/gpt-4o', model_endpoint_type: 'openai' },
    },
    { override_name: 'New One', append_copy_suffix: 'true', model: MODEL, env_vars_json: '{"KEY":"v"}' },
  );
  expect(body.left_out.map(({ path }: { path: string }) => path)).toEqual(
    expect.arrayContaining(['/embedding_config', '/messages/0']),
  );
  const id = body.agent_ids[0];
  const agent = (await api.call('GET', `/v1/agents/${id}`)).body;
  expect(agent).toMatchObject({
    name: 'New One_copy',
    model: MODEL,
    metadata: { k: 'v' },
    tags: ['old'],
    llm_config: { context_window: 90_000 },
    secrets: [{ key: 'KEY' }],
    blocks: [{ label: 'persona', value: 'A helper.', description: 'Me.' }],
  });
  expect(agent.tools).toHaveLength(1);
  expect(await messagesOf(id)).toEqual([['user_message', 'Hi.', '2025-04-02T02:19:15+00:00']]);
  const stripped = await importFile(legacy(), { strip_messages: 'true' });
  expect(await messagesOf(stripped.body.agent_ids[0])).toEqual([]);
});

test.each(['', '?use_legacy_format=true'])(
  'an exported agent%s is imported equal but for ids, without a loss',
  async (query) => {
    const id = await createAgent(api, {
      name: 'Round Trip',
      description: 'All of it.',
      metadata: { team: 'x' },
      tags: ['one', 'two'],
      timezone: 'Asia/Tokyo',
      compaction_settings: { mode: 'static_message_buffer', message_buffer_limit: 20, message_buffer_min: 5 },
      model_settings: {
        max_output_tokens: 3_000,
        thinking: { type: 'enabled', budget_tokens: 2_000 },
        temperature: 0.5,
      },
      context_window_limit: 50_000,
      response_format: { type: 'json_object' },
      embedding: 'openai/e',
      embedding_config: { dim: 3 },
      secrets: { TOKEN: 'x' },
      tool_rules: [{ type: 'max_count_per_step', tool_name: 'memory_insert', max_count_limit: 2 }],
      memory_blocks: [
        {
          label: 'human',
          value: 'Ann',
          limit: 50,
          conflict_policy: 'reject',
          tags: ['t'],
          metadata: { a: 1 },
        },
        { label: 'notes', value: 'N', read_only: true, hidden: true },
      ],
    });
    await api.call('POST', `/v1/agents/${id}/messages/append`, {
      messages: [
        { role: 'system', content: 'Begin.', said_at: '2026-01-01T00:00:00Z' },
        {
          role: 'user',
          content: '{"type":"heartbeat","time":"x"}',
          said_at: '2026-01-01T00:00:00Z',
          otid: 'a',
        },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'B' },
            { type: 'text', text: 'C' },
          ],
          said_at: '2026-01-01T00:00:01Z',
        },
      ],
    });
    const file = await exportFile(id, query);
    const first = await importFile(file, { strict: 'true' });
    expect(first).toMatchObject({ status: 200, body: { left_out: [], left_out_total: 0 } });
    const again = first.body.agent_ids[0];
    expect(await comparable(again)).toEqual(await comparable(id));
    expect(await messagesOf(again)).toEqual(await messagesOf(id));
    const { created_at: _, ...second } = await exportFile(again, query);
    const stable = (value: unknown) =>
      JSON.parse(
        JSON.stringify(value, (key, inner: unknown) =>
          /^(created|updated)_at$|^id$/.test(key) ? undefined : inner,
        ),
      );
    const { created_at: __, ...origin } = file;
    expect(stable(second)).toEqual(stable(origin));
  },
);

const wrong: readonly (readonly [string, unknown, number, string | null])[] = [
  ['no file', undefined, 422, '/file'],
  ['no JSON', '{', 422, null],
  ['another JSON', [1], 422, ''],
  ['no agents', { agents: [] }, 422, '/agents'],
  ['a dangling block', { ...letta(), blocks: letta().blocks.slice(0, 2) }, 422, '/agents/1/block_ids/1'],
  ['a dangling tool', { ...letta(), tools: [] }, 422, '/agents/0/tool_ids/0'],
  ['repeated ids', { ...letta(), blocks: [...letta().blocks, letta().blocks[0]] }, 422, '/blocks/3/id'],
  ['another provider', { ...letta(), agents: [{ id: 'a', model: 'openai/gpt-4o' }] }, 422, '/agents/0/model'],
  ['no model', { ...letta(), agents: [{ id: 'a' }] }, 400, '/agents/0/model'],
  [
    'a block over its limit',
    { ...letta(), blocks: letta().blocks.map((block) => ({ ...block, limit: 3 })) },
    422,
    '/blocks/1/value',
  ],
  [
    'a time that is none',
    { ...legacy(), messages: [said('user', 'x', { created_at: 'now' })] },
    422,
    '/messages/0/created_at',
  ],
  [
    'a rule of no type',
    { ...legacy(), tool_rules: [{ tool_name: 'x', type: 'odd' }] },
    422,
    '/tool_rules/0/type',
  ],
  [
    'two blocks of a label',
    { ...legacy(), core_memory: [...legacy().core_memory, ...legacy().core_memory] },
    422,
    '/core_memory/1',
  ],
  ['too large', ' '.repeat(16 * 1024 * 1024 + 1), 413, null],
];

test.each(wrong)(
  'a file with %s is refused at its place, and nothing is stored',
  async (_name, file, status, path) => {
    const before = await countRows(api);
    const answer = await importFile(file);
    expect([answer.status, answer.body.errors?.[0]?.path ?? null]).toEqual([status, path]);
    expect(await countRows(api)).toEqual(before);
  },
);

test('JSON in place of a form is refused with what to send', async () => {
  const { status, body } = await api.call('POST', '/v1/agents/import', legacy());
  expect([status, body.detail]).toEqual([415, expect.stringMatching(/multipart\/form-data/)]);
});

test('1,000 agents go out as lines and come back equal, and a shared block stays shared', async () => {
  const shared = (await api.call('POST', '/v1/blocks', { label: 'shared', value: 'S' })).body.id;
  const lines = Array.from({ length: 1_000 }, (_, index) => ({
    name: `line ${index}`,
    model: MODEL,
    tags: ['lines'],
    block_ids: [shared],
    memory_blocks: [{ label: 'human', value: `Human ${index}` }],
    include_base_tools: false,
    tools: ['memory_insert'],
  }));
  const made = await importLines(gzipSync(lines.map((line) => JSON.stringify(line)).join('\n')), {
    'content-encoding': 'gzip',
  });
  expect([made.status, made.body.agent_ids?.length, made.body.left_out]).toEqual([200, 1_000, []]);
  const { body, headers } = await api.app.inject({
    url: '/v1/agents/export?tags=lines',
    headers: { authorization: `Bearer ${API_KEY}` },
  });
  expect(headers['content-type']).toMatch(/^application\/jsonl/);
  const sent = body
    .trim()
    .split('\n')
    .map((line: string) => JSON.parse(line));
  expect(sent.map(({ id }: { id: string }) => id).toSorted()).toEqual(made.body.agent_ids.toSorted());
  const again = await importLines(sent);
  expect(again.status).toBe(200);
  expect(again.body.agent_ids).toHaveLength(1_000);
  for (const index of [0, 500, 999])
    expect(await comparable(again.body.agent_ids[index])).toEqual(await comparable(sent[index].id));
  const { rows } = await api.database.pool.query(
    "select count(distinct b.id)::int as blocks from agent a join agent_block k on k.agent_id = a.id join block b on b.id = k.block_id where 'lines' = any(a.tags) and b.label = 'shared'",
  );
  expect(rows).toEqual([{ blocks: 2 }]);
});

test('wrong lines are refused by line and field, up to a hundred, and nothing is stored', async () => {
  const before = await countRows(api);
  const { status, body } = await importLines([
    { name: 'ok', model: MODEL },
    { name: 'no tool', model: MODEL, tools: ['nothing'] },
    { model: MODEL, block_ids: ['block-01890000-0000-7000-8000-000000000000'] },
    { nme: 'x' },
    legacy(),
  ]);
  expect(status).toBe(422);
  expect(body.errors.map(({ path }: { path: string }) => path)).toEqual(['/lines/4/nme']);
  const known = await importLines([
    { name: 'no tool', model: MODEL, tools: ['nothing'] },
    { model: MODEL, block_ids: ['block-01890000-0000-7000-8000-000000000000'] },
    { model: MODEL, memory_blocks: [{ id: 'b', label: 'x', value: '1' }] },
    { model: MODEL, memory_blocks: [{ id: 'b', label: 'x', value: '2' }] },
  ]);
  expect(known.body.errors.map(({ path }: { path: string }) => path)).toEqual(['/lines/4/memory_blocks/0']);
  const unknown = await importLines([
    { name: 'no tool', model: MODEL, tools: ['nothing'] },
    { model: MODEL, block_ids: ['block-01890000-0000-7000-8000-000000000000'] },
  ]);
  expect(unknown.body.errors.map(({ path }: { path: string }) => path)).toEqual([
    '/lines/1/tools/0',
    '/lines/2/block_ids/0',
  ]);
  const many = await importLines(Array.from({ length: 150 }, () => ({ model: 1 })));
  expect([many.body.errors.length, many.body.errors_total]).toEqual([100, 150]);
  expect((await importLines(Buffer.from(''))).status).toBe(400);
  expect(await countRows(api)).toEqual(before);
});

test('the export of a conversation beyond its limit is refused, and possible without messages', async () => {
  const id = await createAgent(api);
  const messages = Array.from({ length: 10_001 }, (_, index) => ({ role: 'user', content: `m${index}` }));
  await api.call('POST', `/v1/agents/${id}/messages/append`, { messages });
  const { status, body } = await api.call('GET', `/v1/agents/${id}/export`);
  expect([status, body.detail]).toEqual([413, expect.stringMatching(/10,000 messages.*strip_messages=true/)]);
  expect((await exportFile(id, '?strip_messages=true')).agents[0].messages).toEqual([]);
});

test("the client's operations move agents as a file and as lines", async () => {
  const client = createNightshift({
    apiKey: API_KEY,
    url: 'http://localhost',
    fetch: async (given) => {
      const request = new Request(given);
      const { pathname, search } = new URL(request.url);
      const answer = await api.app.inject({
        method: request.method as 'GET' | 'POST',
        url: `${pathname}${search}`,
        headers: Object.fromEntries(request.headers),
        ...(request.method === 'GET' ? {} : { payload: Buffer.from(await request.arrayBuffer()) }),
      });
      const headers = { 'content-type': String(answer.headers['content-type']) };
      return new Response(answer.body, { status: answer.statusCode, headers });
    },
  });
  const id = await createAgent(api, { name: 'By client', tags: ['by-client'] });
  const file = await client.agents.exportFile(id, { legacy: true });
  const made = await client.agents.importFile(JSON.stringify(file), { strict: true, name: 'Copy' });
  expect(made).toMatchObject({ agent_ids: [expect.any(String)], left_out: [] });
  const lines = [];
  for await (const line of client.agents.exportLines({ tags: ['by-client'] })) lines.push(line);
  expect(lines.map(({ name }) => name)).toEqual(['By client', 'Copy']);
  expect((await client.agents.importLines(lines)).agent_ids).toHaveLength(2);
});
