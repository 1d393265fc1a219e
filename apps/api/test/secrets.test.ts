import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSecrets, readSecretsKeys } from '@nightshift/intake';
import { readSecretsFor } from '@nightshift/db';
import { mcpTool, serveMcp } from '../../../test/mcp-servers.ts';
import { buildServer } from '../src/index.ts';
import { API_KEY, createAgent, openApi, PROJECT_ID, SECRETS_KEY, type Answer, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const keys = readSecretsKeys(SECRETS_KEY, undefined);

/** Returns the values that a worker would give to a tool of the agent. */
async function valuesOf(agentId: string, ...names: readonly string[]): Promise<Record<string, string>> {
  const id = agentId.replace('agent-', '');
  const rows = await readSecretsFor(api.database.db, PROJECT_ID, names, [id]);
  return Object.fromEntries(openSecrets(rows, keys)(id, names));
}

const put = (name: string, value: unknown): Promise<Answer> =>
  api.call('PUT', `/v1/secrets/${name}`, { value });
const OTHER = `agent-${'0'.repeat(8)}-0000-7000-8000-${'0'.repeat(12)}`;

test('a secret is stored, replaced, listed without its value, and deleted', async () => {
  const first = await put('TOKEN', 'first value');
  expect([first.status, first.body]).toEqual([
    200,
    {
      name: 'TOKEN',
      key_id: keys.current!.id,
      created_at: expect.any(String),
      updated_at: first.body.created_at,
    },
  ]);
  const second = await put('TOKEN', 'second value');
  expect(second.body).toEqual({ ...first.body, updated_at: expect.any(String) });
  expect(second.body.updated_at > first.body.updated_at).toBe(true);
  await put('ALSO', 'x');
  const { body: listed } = await api.call('GET', '/v1/secrets');
  expect(listed.map(({ name }: { name: string }) => name)).toEqual(['ALSO', 'TOKEN']);
  expect(listed[1]).toEqual(second.body);
  expect(await valuesOf(OTHER, 'TOKEN', 'ALSO', 'ABSENT')).toEqual({ TOKEN: 'second value', ALSO: 'x' });

  expect(await api.call('DELETE', '/v1/secrets/ALSO')).toMatchObject({ status: 200, body: null });
  expect(await api.call('DELETE', '/v1/secrets/ALSO')).toMatchObject({
    status: 404,
    body: { code: 'not_found', detail: expect.stringContaining('There is no secret ALSO.') },
  });
  expect(await api.call('GET', '/v1/secrets/TOKEN')).toMatchObject({ status: 405 });
});

test('simultaneous requests for a name all succeed, and one of their values stays', async () => {
  const values = Array.from({ length: 12 }, (_, index) => `value ${index}`);
  const answers = await Promise.all(values.map((value) => put('RACE', value)));
  expect(answers.map(({ status }) => status)).toEqual(values.map(() => 200));
  expect(values).toContain((await valuesOf(OTHER, 'RACE'))['RACE']);
});

test.each(['1ST', 'A-B', 'A.B', 'x'.repeat(65), '%20', 'Ä'])(
  'the name %s is refused by name',
  async (name) => {
    for (const { status, body } of [await put(name, 'x'), await api.call('DELETE', `/v1/secrets/${name}`)]) {
      expect([status, body.errors]).toEqual([
        422,
        [{ path: 'name', message: expect.stringContaining('1 to 64 letters, digits and underscores') }],
      ]);
    }
  },
);

test.each([
  ['nothing', undefined],
  ['null', null],
  ['a number', 7],
  ['an empty text', ''],
  ['a byte too many', 'ä'.repeat(32_768) + 'x'],
  ['characters too many', 'x'.repeat(65_537)],
  ['half of a surrogate pair', 'a\ud800'],
  ['a NUL character', 'a\0'],
])('%s is refused as a value, by the name of the field', async (_, value) => {
  const { status, body } = await put('SIZES', value);
  expect([status, body.code, body.errors.map(({ path }: { path: string }) => path)]).toEqual([
    422,
    'validation_failed',
    ['/value'],
  ]);
});

test('the longest name and value are stored', async () => {
  const name = `_${'x'.repeat(63)}`;
  const value = 'ä'.repeat(32_768);
  expect((await put(name, value)).status).toBe(200);
  expect(await valuesOf(OTHER, name)).toEqual({ [name]: value });
});

test('a project has at most 500 secrets; replacing one is no new secret', async () => {
  const own = await openApi();
  try {
    await own.database.pool.query(
      `insert into secret (project_id, name, key_id, nonce, ciphertext)
       select id, 'S' || n, repeat('0', 16), '\\x000000000000000000000000', decode(repeat('00', 17), 'hex')
         from project, generate_series(1, 500) n`,
    );
    expect(await own.call('PUT', '/v1/secrets/NEW', { value: 'x' })).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('already has 500 secrets') },
    });
    expect((await own.call('PUT', '/v1/secrets/S1', { value: 'x' })).status).toBe(200);
    expect((await own.call('GET', '/v1/secrets')).body).toHaveLength(500);
  } finally {
    await own.close();
  }
});

test("an agent's secrets are masked, replaced as a whole, and deleted with it", async () => {
  await put('SHARED', 'of the project');
  const id = await createAgent(api, { secrets: { SHARED: 'of the agent', OWN: 'own' } });
  const names = ['SHARED', 'OWN', 'MORE'];
  const { body: agent } = await api.call('GET', `/v1/agents/${id}?include=agent.secrets`);
  expect(agent.secrets).toMatchObject([
    { key: 'SHARED', value: '********', agent_id: id },
    { key: 'OWN', value: '********' },
  ]);
  expect(agent.tool_exec_environment_variables).toEqual(agent.secrets);
  expect(await valuesOf(id, ...names)).toEqual({ SHARED: 'of the agent', OWN: 'own' });
  expect((await api.call('GET', '/v1/secrets')).body.map(({ name }: { name: string }) => name)).not.toContain(
    'OWN',
  );

  const update = (secrets: unknown): Promise<Answer> => api.call('PATCH', `/v1/agents/${id}`, { secrets });
  await update(null);
  expect(await valuesOf(id, ...names)).toEqual({ SHARED: 'of the agent', OWN: 'own' });
  const changed = await update({ OWN: '********', MORE: 'more' });
  expect(changed.body.secrets.map(({ key }: { key: string }) => key)).toEqual(['OWN', 'MORE']);
  expect(await valuesOf(id, ...names)).toEqual({ SHARED: 'of the project', OWN: 'own', MORE: 'more' });
  await api.call('PATCH', `/v1/agents/${id}`, {
    tool_exec_environment_variables: { OWN: '', MORE: 'other' },
  });
  expect(await valuesOf(id, ...names)).toEqual({ SHARED: 'of the project', MORE: 'other' });
  await update({});
  expect(await valuesOf(id, 'MORE')).toEqual({});

  await update({ OWN: 'again' });
  await api.call('DELETE', `/v1/agents/${id}`);
  expect(await valuesOf(id, 'OWN')).toEqual({});
  const { rows } = await api.database.pool.query('select from secret where agent_id = $1', [id.slice(6)]);
  expect(rows).toEqual([]);
});

test.each([
  ['A-B', 'x', /1 to 64 letters/],
  ['LONG', 'x'.repeat(65_537), /65,536 bytes/],
  ['HALF', '\ud800', /surrogate/],
])("an agent's secret %s that is not usable is named by its field", async (name, value, message) => {
  for (const field of ['secrets', 'tool_exec_environment_variables']) {
    const { status, body } = await api.call('POST', '/v1/agents', {
      model: 'anthropic/claude-haiku-4-5',
      [field]: { FINE: 'x', [name]: value },
    });
    expect([status, body.errors]).toEqual([
      422,
      [{ path: `/${field}/${name}`, message: expect.stringMatching(message) }],
    ]);
  }
});

test('an import stores the values of its file and of its form; an export has the names alone', async () => {
  const id = await createAgent(api, { name: 'Traveller', secrets: { ONE: 'first', TWO: 'second' } });
  const { body: file } = await api.call('GET', `/v1/agents/${id}/export`);
  expect(JSON.stringify(file)).not.toMatch(/first|second/);
  const [agent] = file.agents;
  expect(agent.tool_exec_environment_variables).toEqual({ ONE: '', TWO: '' });
  const form = new FormData();
  const filled = {
    ...file,
    agents: [{ ...agent, tool_exec_environment_variables: { ONE: 'moved', TWO: null } }],
  };
  form.set('file', new Blob([JSON.stringify(filled)]), 'agent.af');
  form.set('secrets', JSON.stringify({ THREE: 'third' }));
  form.set('strict', 'true');
  const request = new Request('http://api', { method: 'POST', body: form });
  const answer = await api.app.inject({
    method: 'POST',
    url: '/v1/agents/import',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': request.headers.get('content-type')! },
    payload: Buffer.from(await request.arrayBuffer()),
  });
  expect(answer.statusCode, answer.body).toBe(200);
  const [imported] = answer.json().agent_ids;
  expect(await valuesOf(imported, 'ONE', 'TWO', 'THREE')).toEqual({ ONE: 'moved', THREE: 'third' });
  const { body: shown } = await api.call('GET', `/v1/agents/${imported}`);
  expect(shown.secrets.map(({ key }: { key: string }) => key)).toEqual(['ONE', 'TWO', 'THREE']);
});

test('without a key nothing is stored, and the answer says what to set', async () => {
  const bare = buildServer({
    db: api.database.db,
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
  });
  try {
    const call = async (method: 'PUT' | 'POST', url: string, payload: object): Promise<unknown> => {
      const headers = { authorization: `Bearer ${API_KEY}` };
      const answer = await bare.inject({ method, url, headers, payload });
      const { code, detail } = answer.json<{ code?: string; detail?: string }>();
      return [answer.statusCode, answer.headers['x-should-retry'], code, detail];
    };
    const refused = [501, 'false', 'secrets_key_missing', expect.stringContaining('has no SECRETS_KEY')];
    expect(await call('PUT', '/v1/secrets/BARE', { value: 'x' })).toEqual(refused);
    const model = 'anthropic/claude-haiku-4-5';
    expect(await call('POST', '/v1/agents', { model, name: 'Bare', secrets: { A: 'x' } })).toEqual(refused);
    const { rows } = await api.database.pool.query(`select from agent where name = 'Bare'`);
    expect(rows).toEqual([]);
    expect(await call('POST', '/v1/agents', { model, name: 'Bare', secrets: { A: '' } })).toContain(200);
  } finally {
    await bare.close();
  }
});

test('no answer, log line or table holds a value, also of refused requests', async () => {
  const CANARY = 'canary-7f3a91';
  const lines: string[] = [];
  const app = buildServer({
    db: api.database.db,
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
    databaseUrl: api.database.url,
    secretsKeys: keys,
    toolsAllowPrivate: true,
    logger: { level: 'trace', stream: { write: (line: string) => void lines.push(line) } },
  });
  const mcp = await serveMcp([mcpTool('look', `Use ${CANARY}.`)]);
  const answers: string[] = [];
  const send = async (
    method: 'GET' | 'PUT' | 'POST' | 'PATCH',
    url: string,
    body?: unknown,
  ): Promise<string> => {
    const {
      statusCode,
      headers,
      body: text,
    } = await app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${API_KEY}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        // Else the list of events is a stream.
        accept: 'application/json',
        ...(method === 'POST' ? { 'idempotency-key': `once-${answers.length}` } : {}),
      },
      ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    answers.push(`${statusCode} ${JSON.stringify(headers)} ${text}`);
    return text;
  };
  try {
    const long = CANARY.padEnd(65_536, CANARY);
    for (const value of [CANARY, long, [CANARY], { [CANARY]: 1 }, `${CANARY}\0`, `${long}x`])
      await send('PUT', '/v1/secrets/CANARY', { value });
    for (const body of [`{"value":"${CANARY}`, `{"value":${CANARY}}`, `"${CANARY}"`, `[1,"${CANARY}"]`])
      await send('PUT', '/v1/secrets/CANARY', body);
    await send('PUT', '/v1/secrets/not-a-name', { value: CANARY });
    const model = 'anthropic/claude-haiku-4-5';
    const { id } = JSON.parse(await send('POST', '/v1/agents', { model, secrets: { CANARY } })) as {
      id: string;
    };
    await send('POST', '/v1/agents', { model, secrets: { 'A-B': CANARY, LONG: `${long}x`, LIST: [CANARY] } });
    await send('POST', '/v1/agents', `{"secrets":{"A":${CANARY}}}`);
    await send('PATCH', `/v1/agents/${id}`, `{"secrets":{"A":${CANARY}}}`);
    await send('PATCH', `/v1/agents/${id}`, { secrets: { CANARY, MORE: long } });
    await send('PATCH', `/v1/agents/${id}`, { tool_exec_environment_variables: { 'A-B': CANARY } });
    await send('PUT', '/v1/secrets/MCP', { value: CANARY });
    const config = { server_url: mcp.url, auth_token: 'Bearer {{secrets.MCP}}' };
    const added = JSON.parse(await send('POST', '/v1/mcp-servers', { server_name: 'a', config })) as {
      id: string;
    };
    mcp.tools.push(mcpTool('other', CANARY));
    await send('PATCH', `/v1/mcp-servers/${added.id}/refresh`);
    for (const plain of [
      { ...config, auth_token: `Bearer ${CANARY}` },
      { ...config, custom_headers: { 'X-Token': CANARY } },
      { ...config, auth_token: [CANARY] },
    ]) {
      await send('POST', '/v1/mcp-servers', { server_name: 'b', config: plain });
      await send('PATCH', `/v1/mcp-servers/${added.id}`, { config: plain });
    }
    await send('POST', '/v1/mcp-servers', `{"server_name":"${CANARY}`);
    await mcp.close();
    await send('PATCH', `/v1/mcp-servers/${added.id}/refresh`);
    const requests = [{ agent_id: id, messages: [{ role: 'user', content: 'Go.' }] }];
    await send('POST', '/v1/batches', { requests });
    for (const url of [
      '/v1/secrets',
      `/v1/agents/${id}`,
      '/v1/agents',
      `/v1/agents/${id}/export`,
      '/v1/events',
    ])
      await send('GET', url);
    // The database refuses to store, and describes the row in its error.
    await api.database.pool.query(
      `alter table secret add constraint refuses check (name <> 'REFUSED') not valid`,
    );
    await send('PUT', '/v1/secrets/REFUSED', { value: CANARY });
  } finally {
    await app.close();
  }
  const statuses = answers.map((answer) => Number(answer.slice(0, 3)));
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(10);
  expect(statuses.filter((status) => status === 422).length).toBeGreaterThanOrEqual(10);
  expect(statuses).toContain(500);
  expect(await valuesOf(OTHER, 'CANARY')).toEqual({ CANARY: CANARY.padEnd(65_536, CANARY) });
  expect(answers.filter((answer) => answer.includes('canary'))).toEqual([]);
  expect(lines.length).toBeGreaterThan(10);
  expect(lines.filter((line) => line.includes('canary'))).toEqual([]);
  const { rows: tables } = await api.database.pool.query<{ name: string }>(
    `select format('%I', table_name) as name from information_schema.tables where table_schema = 'public'`,
  );
  expect(tables.length).toBeGreaterThan(50);
  for (const { name } of tables) {
    const { rows } = await api.database.pool.query(
      `select t from ${name} t where t::text like '%' || $1 || '%' or t::text like '%' || $2 || '%'`,
      ['canary', Buffer.from('canary').toString('hex')],
    );
    expect([name, rows]).toEqual([name, []]);
  }
});
