import { auditInvariants } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_KEY, createAgent, openApi, type TestApi } from './api.ts';
import { definitionsOf, pathsOf, uploadLines } from './run-definitions.ts';

const SEARCH = {
  type: 'web_search_20260318',
  name: 'web_search',
  max_uses: 3,
  blocked_domains: ['a.example'],
};
const FETCH = { type: 'web_fetch_20260318', name: 'web_fetch' };
const CODE = { type: 'code_execution_20260521', name: 'code_execution' };

let api: TestApi;
let agent_id = '';
let plain = '';
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api, { include_base_tools: false, server_tools: [SEARCH] });
  plain = await createAgent(api, { include_base_tools: false });
});
afterAll(async () => {
  expect(await auditInvariants(api.database.db)).toEqual([]);
  await api.close();
});

const submit = (body: object, path = '/v1/batches') => api.call('POST', path, body);

const upload = (...lines: readonly object[]) => uploadLines(api, lines);

/** The server tools of a batch's runs, in request order. */
const serverToolsOf = (batch: Parameters<typeof definitionsOf>[1]) =>
  definitionsOf<unknown>(api, batch, 'd.server_tools');

describe('server tools of an agent', () => {
  test('are stored, shown as they came, kept by a change of other fields, replaced and removed', async () => {
    const id = await createAgent(api, { server_tools: [SEARCH, FETCH] });
    const path = `/v1/agents/${id}`;
    const shown = async () => (await api.call('GET', path)).body.server_tools;
    expect(await shown()).toEqual([SEARCH, FETCH]);
    await api.call('PATCH', path, { description: 'Searches.' });
    expect(await shown()).toEqual([SEARCH, FETCH]);
    expect((await api.call('PATCH', path, { server_tools: [CODE] })).body.server_tools).toEqual([CODE]);
    expect((await api.call('PATCH', path, { server_tools: [] })).body.server_tools).toEqual([]);
  });

  test.each(['', '?use_legacy_format=true'])('come over with its file%s', async (query) => {
    const { body: file } = await api.call('GET', `/v1/agents/${agent_id}/export${query}`);
    const form = new FormData();
    form.set('file', new Blob([JSON.stringify(file)]), 'agent.af');
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
    const { agent_ids, left_out } = answer.json<{ agent_ids: string[]; left_out: unknown[] }>();
    expect(left_out).toEqual([]);
    const { body: copy } = await api.call('GET', `/v1/agents/${agent_ids[0] ?? ''}`);
    expect(copy).toMatchObject({ server_tools: [SEARCH], metadata: null });
  });

  test.each<[string, object, string]>([
    ['a type without a date', { type: 'web_search', name: 'web_search' }, '/server_tools/0/type'],
    ['a tool that the client runs', { type: 'bash_20250124', name: 'bash' }, '/server_tools/0/type'],
    ['another name', { ...SEARCH, name: 'search' }, '/server_tools/0/name'],
    ['no uses', { ...SEARCH, max_uses: 0 }, '/server_tools/0/max_uses'],
    [
      'a cache mark of its own',
      { ...SEARCH, cache_control: { type: 'ephemeral' } },
      '/server_tools/0/cache_control',
    ],
    ['too many characters', { ...SEARCH, allowed_domains: ['a'.repeat(20_000)] }, '/server_tools/0'],
  ])('are refused for %s', async (_what, tool, path) => {
    const model = 'anthropic/claude-haiku-4-5';
    expect(pathsOf(await api.call('POST', '/v1/agents/', { model, server_tools: [tool] }))).toEqual([
      422,
      path,
    ]);
    const request = { agent_id: plain, input: 'x', server_tools: [tool] };
    expect(pathsOf(await submit({ requests: [request] }))).toEqual([422, `/requests/0${path}`]);
    expect(pathsOf(await upload(request))).toEqual([422, `/lines/1${path}`]);
  });

  test('are refused twice, and beside a tool or a tool rule of their name', async () => {
    const model = 'anthropic/claude-haiku-4-5';
    const create = (body: object) =>
      api.call('POST', '/v1/agents/', { model, include_base_tools: false, ...body });
    expect(pathsOf(await create({ server_tools: [SEARCH, SEARCH] }))).toEqual([422, '/server_tools/1/name']);
    const tool_rules = [{ type: 'run_first', tool_name: 'web_search' }];
    expect(pathsOf(await create({ server_tools: [SEARCH], tool_rules }))).toEqual([422, '/tool_rules/0']);
    const { body: tool } = await api.call('POST', '/v1/tools/', {
      source_type: 'typescript',
      source_code: 'export function web_fetch(url: string) { return url; }',
      json_schema: {
        name: 'web_fetch',
        parameters: { type: 'object', properties: { url: { type: 'string' } } },
      },
    });
    expect(pathsOf(await create({ server_tools: [FETCH], tools: ['web_fetch'] }))).toEqual([
      422,
      '/server_tools/0/name',
    ]);
    const { body: agent } = await create({ server_tools: [FETCH] });
    const attached = await api.call('PATCH', `/v1/agents/${agent.id}/tools/attach/${tool.id}`);
    expect(pathsOf(attached)).toEqual([422, '/server_tools/0/name']);
    const ruled = await api.call('PATCH', `/v1/agents/${agent.id}`, {
      tool_rules: [{ type: 'constrain_child_tools', tool_name: 'x', children: ['web_fetch'] }],
    });
    expect(pathsOf(ruled)).toEqual([422, '/tool_rules/0']);
    expect((await api.call('GET', `/v1/agents/${agent.id}`)).body).toMatchObject({
      tools: [],
      tool_rules: [],
    });

    const taken = { agent_id: plain, input: 'x', tools: { add: ['web_fetch'] } };
    expect(pathsOf(await submit({ requests: [{ ...taken, server_tools: [FETCH] }] }))).toEqual([
      422,
      '/requests/0/server_tools/0/name',
    ]);
    expect(pathsOf(await submit({ server_tools: [FETCH], requests: [taken] }))).toEqual([
      422,
      '/requests/0/agent_id',
    ]);
  });
});

describe('server tools of a batch', () => {
  test('replace those of its agents; a request’s own replace those of the batch, beside the batch’s choice of tools', async () => {
    const requests = [
      { agent_id, input: 'a' },
      { agent_id, input: 'b', server_tools: [FETCH] },
      { agent_id, input: 'c', server_tools: [] },
      { agent_id, input: 'd', tools: { add: ['memory_insert'] } },
      { agent_id: plain, input: 'e', conversation: 'isolated' },
    ];
    expect(await serverToolsOf(await submit({ requests }))).toEqual([
      [SEARCH],
      [FETCH],
      null,
      [SEARCH],
      null,
    ]);
    const of = { server_tools: [CODE, FETCH], tools: { add: ['memory_replace'] } };
    const both = [[CODE, FETCH], [FETCH], null, [CODE, FETCH], [CODE, FETCH]];
    const made = await submit({ ...of, requests });
    expect(await serverToolsOf(made)).toEqual(both);
    expect(await serverToolsOf(await upload({ batch: of }, ...requests))).toEqual(both);
    const { rows } = await api.database.pool.query<{ names: string[] }>(
      `select array(select t ->> 'name' from json_array_elements(d.tools) t) as names
         from run r join definition d on d.id = r.definition_id where r.batch_id = $1 order by r.ordinal`,
      [made.body.id.slice(4)],
    );
    expect(rows.map(({ names }) => names.join())).toEqual([
      ...['memory_replace', 'memory_replace', 'memory_replace', 'memory_insert', 'memory_replace'],
    ]);
  });

  test('hold for a template, a fleet and the ticks of a schedule, but not for a rewrite of memory', async () => {
    const template = { agent_id: plain, input: 'Go.' };
    const inputs = [{ custom_id: 'one', variables: {} }];
    expect(await serverToolsOf(await submit({ server_tools: [SEARCH], template, inputs }))).toEqual([
      [SEARCH],
    ]);
    const own = { ...template, server_tools: [FETCH] };
    expect(await serverToolsOf(await submit({ server_tools: [SEARCH], template: own, inputs }))).toEqual([
      [FETCH],
    ]);
    const fleet = { agents: { ids: [agent_id, plain] }, input: 'Go.' };
    expect(await serverToolsOf(await submit({ ...fleet, server_tools: [FETCH] }))).toEqual([
      [FETCH],
      [FETCH],
    ]);
    expect(await serverToolsOf(await submit(fleet))).toEqual([[SEARCH], null]);
    const body = { requests: [template], server_tools: [CODE] };
    const made = await api.call('POST', '/v1/schedules', {
      name: 's',
      cron: '0 2 * * *',
      time_zone: 'UTC',
      body,
    });
    const run = await api.call('POST', `/v1/schedules/${made.body.id}/run-now`);
    const { body: batch } = await api.call('GET', `/v1/batches/${run.body.job_id}`);
    expect(await serverToolsOf({ status: 200, body: batch })).toEqual([[CODE]]);
    const rewrite = { kind: 'memory_rewrite', agents: {}, blocks: ['human'], server_tools: [] };
    expect(pathsOf(await submit(rewrite))).toEqual([422, '/server_tools']);
  });

  test('count in the estimate with the most that their uses may cost, and the estimate says by which bound', async () => {
    const estimate = async (server_tools: object[]) => {
      const requests = [{ agent_id: plain, input: 'Go.', max_steps: 1, server_tools }];
      const { status, body } = await submit({ requests }, '/v1/batches/estimate');
      expect(status).toBe(200);
      return body;
    };
    const bounded = await estimate([SEARCH]);
    const unbounded = await estimate([{ type: SEARCH.type, name: SEARCH.name }]);
    expect(bounded.server_tools).toEqual([
      {
        type: SEARCH.type,
        name: 'web_search',
        uses_per_step: 3,
        is_assumed: false,
        cost_usd_per_step: '0.03',
      },
    ]);
    expect(unbounded.server_tools).toMatchObject([
      { uses_per_step: 20, is_assumed: true, cost_usd_per_step: '0.20' },
    ]);
    expect((await estimate([FETCH, CODE])).server_tools).toMatchObject([
      { name: 'web_fetch', uses_per_step: null, cost_usd_per_step: '0.00' },
      { name: 'code_execution', uses_per_step: null, cost_usd_per_step: null },
    ]);
    const worst = (body: { cost_usd: { worst: string } }): number => Number(body.cost_usd.worst);
    // The longer JSON of the bounded tool costs a little too.
    expect(worst(unbounded) - worst(bounded)).toBeCloseTo(0.17, 3);
    expect(worst(bounded) - worst(await estimate([]))).toBeGreaterThan(0.03);
    expect(Number(bounded.cost_usd.expected)).toBeGreaterThan(0.01);
  });

  test('without a price are refused under a cap in dollars, and skip the agents of a fleet', async () => {
    const request = { agent_id: plain, input: 'x', server_tools: [CODE] };
    expect(pathsOf(await submit({ requests: [request], max_cost_usd: 1 }))).toEqual([422, '/max_cost_usd']);
    expect(pathsOf(await submit({ requests: [{ ...request, max_cost_usd: 1 }] }))).toEqual([
      422,
      '/requests/0/max_cost_usd',
    ]);
    const fleet = { agents: { ids: [plain] }, input: 'Go.', server_tools: [CODE], max_cost_usd: 1 };
    const made = await submit(fleet);
    expect(await serverToolsOf(made)).toEqual([]);
    expect((await api.call('GET', `/v1/batches/${made.body.id}/skipped`)).body).toMatchObject([
      { agent_id: plain, reason: 'no_price' },
    ]);
  });
});
