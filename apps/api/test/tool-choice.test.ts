import { auditInvariants } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';
import { definitionsOf, pathsOf, uploadLines } from './run-definitions.ts';

let api: TestApi;
let agent_id = '';
let plain = '';
beforeAll(async () => {
  api = await openApi();
  const tools = ['conversation_search', 'memory_insert', 'memory_replace'];
  agent_id = await createAgent(api, { tags: ['chooses'], include_base_tools: false, tools });
  plain = await createAgent(api, { tags: ['chooses'], include_base_tools: false });
});
afterAll(async () => {
  expect(await auditInvariants(api.database.db)).toEqual([]);
  await api.close();
});

const OWN = 'conversation_search,memory_insert,memory_replace';
const submit = (body: object, path = '/v1/batches') => api.call('POST', path, body);

const upload = (...lines: readonly object[]) => uploadLines(api, lines);

/** The names of the tools of a batch's runs, in request order. */
const toolsOf = (batch: Parameters<typeof definitionsOf>[1]) =>
  definitionsOf<string>(
    api,
    batch,
    `array_to_string(array(select t ->> 'name' from json_array_elements(d.tools) t), ',')`,
  );

describe('a choice of tools', () => {
  const requests = [
    { agent_id, input: 'a' },
    { agent_id, input: 'b', tools: { remove: ['memory_insert'] } },
    { agent_id, input: 'c', tools: null },
  ];
  const of = (list: typeof requests) => list.map((request) => ({ ...request, agent_id }));
  const chosen: readonly string[] = [
    `${OWN},memory_rethink`,
    'conversation_search,memory_replace',
    `${OWN},memory_rethink`,
  ];

  test('of a batch holds for its requests, and a request’s own replaces it as a whole', async () => {
    const tools = { add: ['memory_rethink'] };
    expect(await toolsOf(await submit({ tools, requests: of(requests) }))).toEqual(chosen);
    expect(await toolsOf(await submit({ requests: of(requests) }))).toEqual([OWN, chosen[1], OWN]);
  });

  test('of an upload’s first line holds for its lines, as for the requests of a JSON body', async () => {
    const batch = { tools: { add: ['memory_rethink'] } };
    expect(await toolsOf(await upload({ batch }, ...of(requests)))).toEqual(chosen);
  });

  test('of a template replaces the choice of the batch, in JSON and in an upload', async () => {
    const inputs = [{ custom_id: 'one', variables: {} }];
    const template = { agent_id, input: 'Go.', tools: { only: ['memory_insert'] } };
    const tools = { add: ['memory_rethink'] };
    expect(await toolsOf(await submit({ tools, template, inputs }))).toEqual(['memory_insert']);
    expect(await toolsOf(await upload({ batch: { tools, template } }, ...inputs))).toEqual(['memory_insert']);
    const { tools: _, ...shared } = template;
    expect(await toolsOf(await submit({ tools, template: shared, inputs }))).toEqual([chosen[0]]);
    expect(await toolsOf(await upload({ batch: { tools, template: shared } }, ...inputs))).toEqual([
      chosen[0],
    ]);
  });

  test('of a fleet holds for each agent, and skips an agent without a tool that it keeps', async () => {
    const fleet = { agents: { ids: [agent_id, plain] }, input: 'Go.' };
    const adds = { ...fleet, tools: { add: ['memory_rethink'] } };
    expect(await toolsOf(await submit(adds))).toEqual([chosen[0], 'memory_rethink']);
    const keeps = await submit({ ...fleet, tools: { only: ['memory_insert'] } });
    expect(await toolsOf(keeps)).toEqual(['memory_insert']);
    const skipped = await api.call('GET', `/v1/batches/${keeps.body.id}/skipped`);
    expect(skipped.body).toMatchObject([{ agent_id: plain, reason: 'unusable_tools' }]);
  });

  test('of a schedule holds for the batches of its ticks', async () => {
    const body = { requests: [{ agent_id, input: 'Go.' }], tools: { only: ['memory_insert'] } };
    const schedule = { name: 'choice', cron: '0 2 * * *', time_zone: 'UTC', body };
    const made = await api.call('POST', '/v1/schedules', schedule);
    expect(made.status).toBe(200);
    const run = await api.call('POST', `/v1/schedules/${made.body.id}/run-now`);
    expect(run.status).toBe(200);
    const { body: batch } = await api.call('GET', `/v1/batches/${run.body.job_id}`);
    expect(await toolsOf({ status: 200, body: batch })).toEqual(['memory_insert']);
    const unknown = { ...schedule, body: { ...body, tools: { add: ['none'] } } };
    expect(pathsOf(await api.call('POST', '/v1/schedules', unknown))).toEqual([422, '/body/tools/add/0']);
  });

  test('lets a client tool take the place of a tool that it takes away', async () => {
    const client_tools = [{ name: 'memory_insert' }];
    const tools = { remove: ['memory_insert'] };
    const [names] = await toolsOf(
      await submit({ requests: [{ agent_id, input: 'x', tools, client_tools }] }),
    );
    expect(names).toBe('conversation_search,memory_replace,memory_insert');
  });
});

describe('a choice of tools is refused with its place', () => {
  const request = (tools: object, extra: object = {}) => ({
    requests: [{ agent_id, input: 'Go.', tools, ...extra }],
  });

  test.each<[string, object, ...string[]]>([
    [
      'an unknown name',
      { add: ['none'], remove: ['nil'] },
      '/requests/0/tools/add/0',
      '/requests/0/tools/remove/0',
    ],
    ['a kept name that is not there', { only: ['memory_rethink'] }, '/requests/0/tools/only/0'],
    ['a name twice', { add: ['memory_rethink', 'memory_rethink'] }, '/requests/0/tools/add'],
    [
      'a name in two lists',
      { add: ['memory_insert'], remove: ['memory_insert'] },
      '/requests/0/tools/remove/0',
    ],
    ['nothing to keep', { only: [] }, '/requests/0/tools/only'],
    ['no list', {}, '/requests/0/tools'],
    ['an unknown list', { add: ['memory_rethink'], drop: [] }, '/requests/0/tools/drop'],
    ['a name that no tool can have', { add: ['a b'] }, '/requests/0/tools/add/0'],
  ])('for %s', async (_name, tools, ...paths) => {
    expect(pathsOf(await submit(request(tools)))).toEqual([422, ...paths]);
    expect(pathsOf(await submit(request(tools), '/v1/batches/estimate'))).toEqual([422, ...paths]);
    const { requests } = request(tools);
    const inLines = paths.map((path) => path.replace('/requests/0', '/lines/1'));
    expect(pathsOf(await upload(...requests))).toEqual([422, ...inLines]);
  });

  test('of the batch, where the choice of the batch is wrong', async () => {
    const tools = { add: ['none'] };
    expect(pathsOf(await submit({ tools, requests: [{ agent_id, input: 'x' }] }))).toEqual([
      422,
      '/tools/add/0',
    ]);
    expect(pathsOf(await submit({ tools, agents: { ids: [plain] }, input: 'x' }))).toEqual([
      422,
      '/tools/add/0',
    ]);
    const line = { agent_id, input: 'x' };
    expect(pathsOf(await upload({ batch: { tools } }, line))).toEqual([422, '/lines/1/batch/tools/add/0']);
    const lacking = { tools: { only: ['memory_insert'] }, requests: [line, { ...line, agent_id: plain }] };
    expect(pathsOf(await submit(lacking))).toEqual([422, '/requests/1/agent_id']);
    const rewrite = { kind: 'memory_rewrite', agents: {}, blocks: ['human'], tools };
    expect(pathsOf(await submit(rewrite))).toEqual([422, '/tools']);
  });

  test('for tool rules that it leaves without a first tool, or without a way to a required one', async () => {
    const ruled = await createAgent(api, {
      include_base_tools: false,
      tools: ['memory_insert', 'memory_replace'],
      tool_rules: [
        { type: 'run_first', tool_name: 'memory_insert' },
        { type: 'constrain_child_tools', tool_name: 'memory_insert', children: ['memory_replace'] },
        { type: 'constrain_child_tools', tool_name: 'memory_replace', children: ['memory_replace'] },
        { type: 'required_before_exit', tool_name: 'memory_rethink' },
      ],
    });
    for (const tools of [{ remove: ['memory_insert'] }, { add: ['memory_rethink'] }]) {
      const answer = await submit(request(tools, { agent_id: ruled }));
      expect(pathsOf(answer)).toEqual([422, '/requests/0/tools']);
      expect(answer.body.errors).toMatchObject([
        { message: expect.stringMatching(/^leave unusable tool rules: \/tool_rules/) },
      ]);
    }
  });

  test('for a client tool with the name of an added tool', async () => {
    const client_tools = [{ name: 'memory_rethink' }];
    const answer = await submit(request({ add: ['memory_rethink'] }, { client_tools }));
    expect(pathsOf(answer)).toEqual([422, '/requests/0/client_tools']);
  });
});
