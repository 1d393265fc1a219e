import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countRows, createAgent, openApi, UNKNOWN_UUID, type Answer, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const model = 'anthropic/claude-haiku-4-5';
const create = (body: object) => api.call('POST', '/v1/agents/', body);
const namesOf = (tools: { name: string }[]) => tools.map((tool) => tool.name);

/** A rule of each type not covered by other tests, with all its fields. */
const EVERY_RULE = [
  { type: 'run_first', tool_name: 'memory_insert', args: { label: 'human' } },
  {
    type: 'constrain_child_tools',
    tool_name: 'memory_insert',
    children: ['memory_insert', 'memory_replace'],
    child_arg_nodes: [{ name: 'memory_replace', args: { label: 'human' } }],
  },
  { type: 'parent_last_tool', tool_name: 'memory_replace', children: ['x'] },
  {
    type: 'conditional',
    tool_name: 'x',
    child_output_mapping: { true: 'y' },
    default_child: 'z',
    require_output_mapping: true,
  },
  { type: 'max_count_per_step', tool_name: 'memory_insert', max_count_limit: 3 },
  { type: 'required_before_exit', tool_name: 'memory_replace' },
  { type: 'requires_approval', tool_name: 'memory_insert' },
];

describe('creating an agent', () => {
  test('needs a model only', async () => {
    const { status, body } = await create({ model });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^agent-[0-9a-f-]{36}$/),
      name: expect.stringMatching(/^[A-Z][a-z]+[A-Z][a-z]+$/),
      agent_type: 'letta_v1_agent',
      model,
      model_settings: {
        provider_type: 'anthropic',
        max_output_tokens: 8192,
        parallel_tool_calls: true,
      },
      llm_config: { model: 'claude-haiku-4-5', handle: model, context_window: 128_000, max_tokens: 8192 },
      embedding: null,
      tool_rules: [],
      blocks: [],
      memory: { agent_type: 'letta_v1_agent', blocks: [] },
      message_ids: [],
      sources: [],
      tags: [],
      secrets: [],
      timezone: 'UTC',
      metadata: null,
    });
    expect(body.system.length).toBeGreaterThan(100);
    expect(namesOf(body.tools)).toEqual(['conversation_search', 'memory_insert', 'memory_replace']);
    expect((await api.call('GET', `/v1/agents/${body.id}`)).body).toEqual(body);
  });

  test.each<[string, object]>([
    ['not given', {}],
    ['given as null', { model_settings: { provider_type: 'anthropic', thinking: null, temperature: null } }],
  ])('answers no temperature and no thinking if they are %s', async (_name, given) => {
    const { body } = await create({ model, ...given });
    expect(body.model_settings).toMatchObject({ provider_type: 'anthropic', max_output_tokens: 8192 });
    expect(body.model_settings).not.toHaveProperty('temperature');
    expect(body.model_settings).not.toHaveProperty('thinking');
  });

  test.each<[string, object, object]>([
    ['haiku-4-5', { type: 'enabled' }, { type: 'enabled', budget_tokens: 1024 }],
    ['sonnet-4-6', {}, { type: 'enabled', budget_tokens: 1024 }],
    ['haiku-4-5', { budget_tokens: 2000 }, { type: 'enabled', budget_tokens: 2000 }],
    ['haiku-4-5', { type: 'disabled' }, { type: 'disabled' }],
    // Letta's client gives a budget with every type.
    ['haiku-4-5', { type: 'disabled', budget_tokens: 1024 }, { type: 'disabled' }],
    ['haiku-4-5', { type: 'adaptive' }, { type: 'enabled', budget_tokens: 1024 }],
    ['sonnet-4-6', { type: 'adaptive' }, { type: 'adaptive' }],
    ['opus-5-5', { type: 'adaptive', budget_tokens: 1024 }, { type: 'adaptive' }],
    ['sonnet-5', {}, { type: 'adaptive' }],
    [
      'opus-5-5',
      { type: 'enabled', budget_tokens: 99_999, display: 'omitted' },
      { type: 'adaptive', display: 'omitted' },
    ],
    ['sonnet-5-5', { type: 'between_tools' }, { type: 'between_tools' }],
  ])('for %s, thinking %j is sent and answered as %j', async (name, given, sent) => {
    const { body } = await create({ model: `anthropic/claude-${name}`, model_settings: { thinking: given } });
    expect(body.model_settings.thinking).toEqual(sent);
    expect(body.llm_config.enable_reasoner).toBe(!('type' in given && given.type === 'disabled'));
    const row = await api.database.db
      .selectFrom('agent')
      .select('model_settings')
      .where('id', '=', body.id.slice(6))
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ model_settings: { extra: { thinking: sent } } });
  });

  test.each<[object, number]>([
    [{ thinking: { budget_tokens: 8_192 } }, 8_192],
    [{ thinking: {}, max_output_tokens: 1_024 }, 1_024],
    [{ thinking: { budget_tokens: 'much' } }, 8_192],
    [{ thinking: { budget_tokens: 1_023 } }, 8_192],
    [{ thinking: { budget_tokens: 2_000.5 } }, 8_192],
  ])('refuses a thinking budget outside its range: %j', async (model_settings, max) => {
    expect(await create({ model, model_settings })).toMatchObject({
      status: 422,
      body: {
        errors: [
          {
            path: '/model_settings/thinking/budget_tokens',
            message: `must be a whole number, at least 1024 and less than max_output_tokens, which is ${max}`,
          },
        ],
      },
    });
  });

  test.each(['opus-5-5', 'sonnet-5-5', 'fable-5-1'])('refuses to disable thinking of %s', async (name) => {
    const thinking = { type: 'disabled', budget_tokens: 1_024 };
    expect(await create({ model: `anthropic/claude-${name}`, model_settings: { thinking } })).toMatchObject({
      status: 422,
      body: {
        errors: [
          {
            path: '/model_settings/thinking/type',
            message: expect.stringMatching(/always thinks.*adaptive/),
          },
        ],
      },
    });
  });

  test('stores all fields and masks secrets', async () => {
    const rules = [
      ...EVERY_RULE,
      { type: 'exit_loop', tool_name: 'memory_replace' },
      { type: 'continue_loop', tool_name: 'memory_insert', prompt_template: 'Go on.' },
    ];
    const { body } = await create({
      llm_config: {
        model: 'claude-haiku-4-5-20251001',
        model_endpoint_type: 'anthropic',
        context_window: 200000,
      },
      model_settings: {
        provider_type: 'anthropic',
        max_output_tokens: 2000,
        parallel_tool_calls: false,
        temperature: 0.5,
        thinking: { type: 'enabled', budget_tokens: 1024 },
        effort: 'high',
        verbosity: 'low',
        strict: false,
      },
      name: "Anna's über-agent 2",
      description: 'd',
      system: 'You keep notes.',
      embedding: 'openai/text-embedding-3-small',
      tool_rules: rules,
      tags: ['b', 'a', 'b'],
      metadata: { k: [1, { n: null }] },
      secrets: { TOKEN: 'hunter2' },
      timezone: 'Europe/Berlin',
      context_window_limit: 50_000,
      enable_reasoner: true,
      identity_ids: ['identity-1'],
      initial_message_sequence: [],
    });
    expect(body).toMatchObject({
      name: "Anna's über-agent 2",
      model: 'anthropic/claude-haiku-4-5-20251001',
      model_settings: {
        max_output_tokens: 2000,
        parallel_tool_calls: false,
        temperature: 0.5,
        thinking: { type: 'enabled', budget_tokens: 1024 },
        effort: 'high',
      },
      embedding: 'openai/text-embedding-3-small',
      tags: ['b', 'a'],
      metadata: { k: [1, { n: null }] },
      timezone: 'Europe/Berlin',
      llm_config: { context_window: 50_000 },
      secrets: [{ key: 'TOKEN', value: '********' }],
    });
    expect(body.tool_rules).toEqual([
      ...EVERY_RULE.map((rule) => ({ prompt_template: null, ...rule })),
      { type: 'exit_loop', tool_name: 'memory_replace', prompt_template: null },
      { type: 'continue_loop', tool_name: 'memory_insert', prompt_template: 'Go on.' },
    ]);
    const row = await api.database.db
      .selectFrom('agent')
      .selectAll()
      .where('id', '=', body.id.slice(6))
      .executeTakeFirstOrThrow();
    expect(row.model_settings).toEqual({
      max_output_tokens: 2000,
      parallel_tool_calls: false,
      extra: { thinking: { type: 'enabled', budget_tokens: 1024 }, output_config: { effort: 'high' } },
    });
    expect(JSON.stringify(row)).not.toContain('hunter2');
  });

  test('creates its blocks, attaches existing blocks, and finds tools by name and id', async () => {
    const shared = await api.call('POST', '/v1/blocks/', { label: 'shared', value: 'all' });
    const tool = (await api.call('GET', '/v1/tools/?name=memory_rethink')).body[0];
    const { body } = await create({
      model,
      memory_blocks: [
        { label: 'human', value: 'Name: unknown' },
        { label: 'persona', value: 'p', limit: 10, description: 'own', read_only: true },
      ],
      block_ids: [shared.body.id],
      tools: ['rethink_memory', 'memory_insert'],
      tool_ids: [tool.id],
    });
    expect(
      body.blocks.map((block: Record<string, unknown>) => [
        block.label,
        block.value,
        block.limit,
        block.revision,
      ]),
    ).toEqual([
      ['human', 'Name: unknown', 100_000, 1],
      ['persona', 'p', 10, 1],
      ['shared', 'all', 100_000, 1],
    ]);
    expect(body.blocks[0].description).toMatch(/person/);
    expect(body.blocks[1]).toMatchObject({ description: 'own', read_only: true });
    expect(body.memory.blocks).toEqual(body.blocks);
    expect(namesOf(body.tools)).toEqual([
      'conversation_search',
      'memory_insert',
      'memory_replace',
      'rethink_memory',
      'memory_rethink',
    ]);
  });

  test.each([
    ['letta_v1_agent', ['conversation_search', 'memory_insert', 'memory_replace']],
    ['memgpt_v2_agent', ['send_message', 'conversation_search', 'memory_insert', 'memory_replace']],
    [
      'memgpt_agent',
      [
        ...['send_message', 'conversation_search', 'archival_memory_insert', 'archival_memory_search'],
        ...['core_memory_append', 'core_memory_replace', 'memory', 'memory_apply_patch'],
      ],
    ],
    ['sleeptime_agent', ['memory_insert', 'memory_replace', 'memory_rethink', 'memory_finish_edits']],
    ['workflow_agent', []],
  ])('of type %s comes with its base tools', async (agent_type, names) => {
    expect(namesOf((await create({ model, agent_type })).body.tools)).toEqual(names);
    expect((await create({ model, agent_type, include_base_tools: false })).body.tools).toEqual([]);
  });

  test('adds rules for its base tools, unless it has the newest type, its own rules, or refuses them', async () => {
    const rulesOf = async (agent: object): Promise<unknown> =>
      (await create({ model, ...agent })).body.tool_rules.map((rule: { type: string; tool_name: string }) => [
        rule.type,
        rule.tool_name,
      ]);
    expect(await rulesOf({})).toEqual([]);
    expect(await rulesOf({ include_base_tool_rules: true })).toEqual([
      ['continue_loop', 'conversation_search'],
      ['continue_loop', 'memory_insert'],
      ['continue_loop', 'memory_replace'],
    ]);
    const sleeper = { agent_type: 'sleeptime_agent' };
    expect(await rulesOf({ ...sleeper, include_base_tool_rules: false })).toEqual([]);
    const own = [{ type: 'exit_loop', tool_name: 'memory_rethink' }];
    expect(await rulesOf({ ...sleeper, tool_rules: own })).toEqual([
      ['exit_loop', 'memory_rethink'],
      ['continue_loop', 'memory_insert'],
      ['continue_loop', 'memory_replace'],
      ['exit_loop', 'memory_finish_edits'],
    ]);
    const speaker = { agent_type: 'workflow_agent', tools: ['send_message'] };
    expect(await rulesOf(speaker)).toEqual([['exit_loop', 'send_message']]);
    const [{ id }] = (await api.call('GET', '/v1/tools/?name=send_message')).body;
    const byId = { agent_type: 'workflow_agent', tools: ['send_message'], tool_ids: [id] };
    expect(await rulesOf(byId)).toEqual([['exit_loop', 'send_message']]);
    expect(await rulesOf({ ...byId, tools: [] })).toEqual([['exit_loop', 'send_message']]);
  });

  test('restores a deleted built-in tool', async () => {
    const [tool] = (await api.call('GET', '/v1/tools/?name=core_memory_append')).body;
    expect((await api.call('DELETE', `/v1/tools/${tool.id}`)).status).toBe(200);
    expect(
      namesOf((await create({ model, include_base_tools: false, tools: ['core_memory_append'] })).body.tools),
    ).toEqual(['core_memory_append']);
  });

  test('drops NUL and lone surrogates, which the database cannot store', async () => {
    const { status, body } = await create({
      model,
      system: 'a\u0000b\ud800',
      metadata: { 'k\u0000': 'v\u0000' },
      memory_blocks: [{ label: 'x', value: 'c\u0000d' }],
    });
    expect(status).toBe(200);
    expect([body.system, body.metadata, body.blocks[0].value]).toEqual(['ab\ufffd', { k: 'v' }, 'cd']);
  });

  test.each<[string, object, number, string]>([
    ['no model', {}, 400, '/model'],
    ['a model without provider', { model: 'claude-haiku-4-5' }, 422, '/model'],
    ['an unknown model', { model: 'anthropic/claude-9' }, 422, '/model'],
    ['another provider', { model: 'openai/gpt-4' }, 422, '/model'],
    [
      'an llm_config with two models',
      { llm_config: { model: 'claude-opus-4-5', handle: model } },
      422,
      '/llm_config/model',
    ],
    [
      'settings of another provider',
      { model, model_settings: { provider_type: 'openai' } },
      422,
      '/model_settings/provider_type',
    ],
    ['an unknown tool', { model, tools: ['send_fax'] }, 400, '/tools/0'],
    ['an unknown tool id', { model, tool_ids: [`tool-${UNKNOWN_UUID}`] }, 400, '/tool_ids/0'],
    ['an unknown block', { model, block_ids: [`block-${UNKNOWN_UUID}`] }, 404, '/block_ids/0'],
    [
      'two blocks with the same label',
      {
        model,
        memory_blocks: [
          { label: 'a', value: '' },
          { label: 'a', value: '' },
        ],
      },
      422,
      '/memory_blocks/1/label',
    ],
    [
      'a value over its limit',
      { model, memory_blocks: [{ label: 'a', value: 'abcd', limit: 3 }] },
      422,
      '/memory_blocks/0/value',
    ],
    ['a bad name', { model, name: 'a/b' }, 422, '/name'],
    ['an unknown type', { model, agent_type: 'robot' }, 422, '/agent_type'],
    ['a misspelt field', { model, tool: ['memory_rethink'] }, 422, '/tool'],
    [
      'a misspelt field of a block',
      { model, memory_blocks: [{ label: 'a', value: '', conflict_polcy: 'reject' }] },
      422,
      '/memory_blocks/0/conflict_polcy',
    ],
    ['a misspelt model setting', { model, model_settings: { thinkng: {} } }, 422, '/model_settings/thinkng'],
    ['a tool name with a NUL', { model, tools: ['memory_rethink\0'] }, 422, '/tools/0'],
    ['a rule without type', { model, tool_rules: [{ tool_name: 'x' }] }, 422, '/tool_rules/0/type'],
    [
      'a rule without a required field',
      { model, tool_rules: [{ type: 'conditional', tool_name: 'x' }] },
      422,
      '/tool_rules/0/child_output_mapping',
    ],
    [
      'a misspelt field of a rule',
      { model, tool_rules: [{ type: 'run_first', tool_name: 'memory_insert', arguments: { label: 'x' } }] },
      422,
      '/tool_rules/0/arguments',
    ],
    [
      'an unknown argument in a rule',
      {
        model,
        tool_rules: [
          {
            type: 'constrain_child_tools',
            tool_name: 'memory_insert',
            children: ['memory_replace'],
            child_arg_nodes: [{ name: 'memory_replace', arg: { label: 'x' } }],
          },
        ],
      },
      422,
      '/tool_rules/0/child_arg_nodes/0/arg',
    ],
    [
      'a rule whose first tool is not attached',
      {
        model,
        tool_rules: [
          { type: 'exit_loop', tool_name: 'x' },
          { type: 'run_first', tool_name: 'x' },
        ],
      },
      422,
      '/tool_rules/1/tool_name',
    ],
    [
      'a rule whose first tool is not attached, after equal rules',
      {
        model,
        tool_rules: [
          { type: 'exit_loop', tool_name: 'memory_insert' },
          { type: 'exit_loop', tool_name: 'memory_insert' },
          { type: 'run_first', tool_name: 'x' },
        ],
      },
      422,
      '/tool_rules/2/tool_name',
    ],
    [
      'an approval rule for an unknown tool',
      {
        model,
        tool_rules: [
          { type: 'exit_loop', tool_name: 'refunds' },
          { type: 'requires_approval', tool_name: 'memory_insert' },
          { type: 'requires_approval', tool_name: 'refunds' },
        ],
      },
      422,
      '/tool_rules/2/tool_name',
    ],
    [
      'an approval rule for a tool name with a NUL',
      { model, tool_rules: [{ type: 'requires_approval', tool_name: 'memory_insert\0' }] },
      422,
      '/tool_rules/0/tool_name',
    ],
    [
      'a rule with fixed arguments that its tool does not take',
      { model, tool_rules: [{ type: 'run_first', tool_name: 'memory_insert', args: { label: 7 } }] },
      422,
      '/tool_rules/0/args',
    ],
    ['an invalid response format', { model, response_format: { type: 'x' } }, 422, '/response_format/type'],
    [
      'an unusable result schema',
      {
        model,
        model_settings: { response_format: { type: 'json_schema', json_schema: { schema: { type: 'x' } } } },
      },
      422,
      '/model_settings/response_format/json_schema/schema',
    ],
    ['an unknown time zone', { model, timezone: 'Mars/Base' }, 422, '/timezone'],
    [
      'a history, which would be lost',
      { model, initial_message_sequence: [{ role: 'user', content: 'Hello.' }] },
      422,
      '/initial_message_sequence',
    ],
  ])('with %s stores nothing', async (_name, body, status, path) => {
    const before = await countRows(api);
    const answer = await create(body);
    expect([answer.status, answer.body.errors[0]?.path]).toEqual([status, path]);
    expect(await countRows(api)).toEqual(before);
  });
});

describe('changing an agent', () => {
  test('changes given fields, keeps null fields, and replaces lists', async () => {
    const id = await createAgent(api, { description: 'old', tags: ['a'], metadata: { x: 1 } });
    const [tool] = (await api.call('GET', '/v1/tools/?name=rethink_memory')).body;
    const before = (await api.call('GET', `/v1/agents/${id}`)).body;
    const { status, body } = await api.call('PATCH', `/v1/agents/${id}`, {
      name: 'new',
      description: null,
      system: 'Be brief.',
      tags: ['b', 'c'],
      tool_ids: [tool.id],
      block_ids: null,
      model_settings: { max_output_tokens: 99 },
      memory_blocks: null,
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id,
      name: 'new',
      description: 'old',
      system: 'Be brief.',
      tags: ['b', 'c'],
      metadata: { x: 1 },
      model_settings: { max_output_tokens: 99, parallel_tool_calls: true },
    });
    expect(namesOf(body.tools)).toEqual(['rethink_memory']);
    expect(body.blocks).toEqual(before.blocks);
    const none = await api.call('PATCH', `/v1/agents/${id}`, { block_ids: [], tool_ids: [] });
    expect([none.body.blocks, none.body.tools]).toEqual([[], []]);
  });

  test("of the model converts thinking to the new model's form", async () => {
    const { body } = await create({ model, model_settings: { thinking: { budget_tokens: 2_000 } } });
    const path = `/v1/agents/${body.id}`;
    const thinkingAfter = async (change: object): Promise<unknown> =>
      (await api.call('PATCH', path, change)).body.model_settings.thinking;
    expect(await thinkingAfter({ name: 'Ada' })).toEqual({ type: 'enabled', budget_tokens: 2_000 });
    expect(await thinkingAfter({ model: 'anthropic/claude-opus-4-6' })).toEqual({
      type: 'enabled',
      budget_tokens: 2_000,
    });
    expect((await api.call('PATCH', path, { max_tokens: 2_000 })).status).toBe(422);
    expect(await thinkingAfter({ model: 'anthropic/claude-opus-5-5', max_tokens: 2_000 })).toEqual({
      type: 'adaptive',
    });
    expect(await thinkingAfter({ model })).toEqual({ type: 'enabled', budget_tokens: 1_024 });
  });

  test('of a model setting keeps the other settings', async () => {
    const settings = { thinking: { budget_tokens: 2_000 }, effort: 'low', temperature: 0.5, strict: true };
    const { body } = await create({ model: 'anthropic/claude-sonnet-4-6', model_settings: settings });
    const path = `/v1/agents/${body.id}`;
    const after = async (model_settings: object): Promise<Record<string, unknown>> => {
      await api.call('PATCH', path, { model_settings });
      return (await api.call('GET', path)).body.model_settings;
    };
    const thinking = { type: 'enabled', budget_tokens: 2_000 };
    const kept = { thinking, effort: 'low', temperature: 0.5, strict: true };
    expect(await after({ max_output_tokens: 8_000 })).toMatchObject({ ...kept, max_output_tokens: 8_000 });
    expect(await after({ thinking: null, effort: null, temperature: null })).toMatchObject(kept);
    expect(await after({ effort: 'high' })).toMatchObject({ ...kept, effort: 'high' });
    expect(await after({ thinking: { type: 'disabled' } })).toMatchObject({ thinking: { type: 'disabled' } });
    const row = await api.database.db
      .selectFrom('agent')
      .select('model_settings')
      .where('id', '=', body.id.slice(6))
      .executeTakeFirstOrThrow();
    expect(row.model_settings).toEqual({
      max_output_tokens: 8_000,
      parallel_tool_calls: true,
      extra: { thinking: { type: 'disabled' }, output_config: { effort: 'high' } },
    });
  });

  test('takes effort from either place, model settings first', async () => {
    const effortOf = ({ body }: Answer) => body.model_settings.effort;
    const created = await create({ model, llm_config: { effort: 'low' } });
    const path = `/v1/agents/${created.body.id}`;
    expect([created.status, effortOf(created)]).toEqual([200, 'low']);
    expect(effortOf(await api.call('PATCH', path, { llm_config: { effort: 'high' } }))).toBe('high');
    const both = { model_settings: { effort: 'medium' }, llm_config: { effort: 'low' } };
    expect(effortOf(await api.call('PATCH', path, both))).toBe('medium');
    expect(effortOf(await api.call('PATCH', path, { llm_config: { effort: null } }))).toBe('medium');
    const refused = await api.call('PATCH', path, { llm_config: { effort: 'most' } });
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/llm_config/effort']);
    const row = await api.database.db
      .selectFrom('agent')
      .select('model_settings')
      .where('id', '=', created.body.id.slice(6))
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ model_settings: { extra: { output_config: { effort: 'medium' } } } });
  });

  test('to an always-thinking model is refused while thinking is disabled', async () => {
    const { body } = await create({ model, model_settings: { thinking: { type: 'disabled' } } });
    const path = `/v1/agents/${body.id}`;
    const later = 'anthropic/claude-opus-5-5';
    for (const [change, place] of [
      [{ model: later }, '/model'],
      [{ llm_config: { handle: later } }, '/llm_config/handle'],
      [{ model: later, model_settings: { thinking: { type: 'disabled' } } }, '/model_settings/thinking/type'],
    ] as const) {
      const refused = await api.call('PATCH', path, change);
      expect([refused.status, refused.body.errors[0].path]).toEqual([422, place]);
    }
    const thinking = { type: 'adaptive' };
    const changed = await api.call('PATCH', path, { model: later, model_settings: { thinking } });
    expect([changed.status, changed.body.model_settings.thinking]).toEqual([200, thinking]);
  });

  test('takes the model from the changed field of llm_config', async () => {
    const { body: state } = await create({ model });
    const modelAfter = async (llm_config: object, rest: object = {}): Promise<unknown> => {
      const { body } = await api.call('PATCH', `/v1/agents/${state.id}`, { llm_config, ...rest });
      return body.model ?? body.errors.map(({ path }: { path: string }) => path);
    };
    expect(await modelAfter(state.llm_config)).toBe(model);
    expect(await modelAfter({ ...state.llm_config, model: 'claude-opus-4-5' })).toBe(
      'anthropic/claude-opus-4-5',
    );
    // The agent has changed: both fields of the earlier answer now differ from it, but they agree.
    expect(await modelAfter(state.llm_config)).toBe(model);
    expect(await modelAfter({ ...state.llm_config, handle: 'anthropic/claude-opus-4-5' })).toBe(
      'anthropic/claude-opus-4-5',
    );
    expect(await modelAfter({ ...state.llm_config, model: 'claude-sonnet-4-5' })).toEqual([
      '/llm_config/model',
      '/llm_config/handle',
    ]);
    expect(await modelAfter({ ...state.llm_config, model: 'claude-sonnet-4-5' }, { model })).toBe(model);
    expect(await modelAfter({ model: 'claude-sonnet-4-5' })).toBe('anthropic/claude-sonnet-4-5');
    expect(await modelAfter({ model: 'anthropic/claude-sonnet-4-5' })).toBe('anthropic/claude-sonnet-4-5');
    expect(await modelAfter({ model: 'claude-9' })).toEqual(['/llm_config/model']);
    expect(await modelAfter({ model: '' })).toEqual(['/llm_config/model']);
    expect(await modelAfter({ handle: 'openai/gpt-4' })).toEqual(['/llm_config/handle']);
    expect(await modelAfter({ ...state.llm_config, model: 'claude-9' })).toEqual([
      '/llm_config/model',
      '/llm_config/handle',
    ]);
    const dated = { model: 'claude-haiku-4-5-20251001', handle: model, model_endpoint_type: 'anthropic' };
    expect(await modelAfter(dated)).toBe(model);
    expect(await modelAfter(dated)).toBe(model);
    expect((await create({ llm_config: dated })).body.model).toBe(model);
  });

  test('takes the context window from either place, its own field first', async () => {
    const windowOf = ({ body }: Answer) => body.llm_config.context_window;
    const created = await create({ model, llm_config: { context_window: 60_000 } });
    const path = `/v1/agents/${created.body.id}`;
    expect([created.status, windowOf(created)]).toEqual([200, 60_000]);
    expect(windowOf(await api.call('PATCH', path, { llm_config: { context_window: 70_000 } }))).toBe(70_000);
    expect(windowOf(await api.call('PATCH', path, { llm_config: { max_tokens: 100 } }))).toBe(70_000);
    const both = { context_window_limit: 50_000, llm_config: { context_window: 80_000 } };
    expect(windowOf(await api.call('PATCH', path, both))).toBe(50_000);
    const refused = await api.call('PATCH', path, { llm_config: { context_window: 0 } });
    expect([refused.status, refused.body.errors[0].path]).toEqual([422, '/llm_config/context_window']);
  });

  test.each<[string, object, number]>([
    ['an unknown tool', { tool_ids: [`tool-${UNKNOWN_UUID}`], name: 'changed' }, 400],
    ['an unknown block', { block_ids: [`block-${UNKNOWN_UUID}`], name: 'changed' }, 404],
    ['an unknown model', { model: 'anthropic/claude-9', name: 'changed' }, 422],
    ['an invalid response format', { response_format: { type: 'x' }, name: 'changed' }, 422],
    ['an unknown field', { modle: 'anthropic/claude-haiku-4-5', name: 'changed' }, 422],
    ['a field that is for creation only', { tools: ['rethink_memory'], name: 'changed' }, 422],
    [
      'rules that do not fit its tools',
      { tool_rules: [{ type: 'run_first', tool_name: 'x' }], name: 'changed' },
      422,
    ],
    [
      'an approval rule for an unknown tool',
      { tool_rules: [{ type: 'requires_approval', tool_name: 'refunds' }], name: 'changed' },
      422,
    ],
  ])('with %s changes nothing', async (_name, change, status) => {
    const id = await createAgent(api);
    const before = (await api.call('GET', `/v1/agents/${id}`)).body;
    expect((await api.call('PATCH', `/v1/agents/${id}`, change)).status).toBe(status);
    expect((await api.call('GET', `/v1/agents/${id}`)).body).toEqual(before);
  });

  test('names the place of an unknown block after a repeated block, as creating does', async () => {
    const path = `/v1/agents/${await createAgent(api)}`;
    const block = (await api.call('POST', '/v1/blocks', { label: 'shared', value: 'v' })).body.id;
    const block_ids = [block, block, `block-${UNKNOWN_UUID}`];
    for (const { status, body } of [
      await create({ model, block_ids }),
      await api.call('PATCH', path, { block_ids }),
    ])
      expect([status, body.errors.map(({ path }: { path: string }) => path)]).toEqual([
        404,
        ['/block_ids/2'],
      ]);
    const twice = await create({ model, block_ids: [block, block] });
    expect([twice.status, twice.body.blocks.length]).toEqual([200, 1]);
  });

  test("names the tools that do not fit the agent's rules", async () => {
    const { body } = await create({ model, tool_rules: [{ type: 'run_first', tool_name: 'memory_insert' }] });
    const path = `/v1/agents/${body.id}`;
    const errorsOf = async (change: object): Promise<unknown> =>
      (await api.call('PATCH', path, change)).body.errors;
    expect(await errorsOf({ tool_ids: [] })).toEqual([
      {
        path: '/tool_ids',
        message:
          'leave the agent with unusable tool rules: /tool_rules/0/tool_name: The tool that must run first, ' +
          "'memory_insert', is not attached; attach it or drop the rule.",
      },
    ]);
    expect(
      await errorsOf({ tool_ids: [], tool_rules: [{ type: 'run_first', tool_name: 'x' }] }),
    ).toMatchObject([{ path: '/tool_rules/0/tool_name' }]);
    expect(await errorsOf({ tool_ids: [], tool_rules: [] })).toBeUndefined();
  });

  test('refuses rules that require a tool which they never allow, unless another tool allows it', async () => {
    const required = (tool_name: string) => ({ type: 'required_before_exit', tool_name });
    const parent = (tool_name: string, child = 'memory_insert') => ({
      type: 'parent_last_tool',
      tool_name,
      children: [child],
    });
    const circle = [
      { type: 'run_first', tool_name: 'memory_insert' },
      { type: 'constrain_child_tools', tool_name: 'memory_insert', children: ['memory_insert'] },
    ];
    const errorsOf = async (rules: object[], rest: object = {}): Promise<unknown> =>
      (
        await create({
          model,
          include_base_tools: false,
          include_base_tool_rules: false,
          tools: ['memory_insert', 'memory_replace', 'finish'],
          tool_rules: rules,
          ...rest,
        })
      ).body.errors;
    const pair = [parent('memory_rethink'), parent('memory_insert', 'memory_rethink')];
    const callable = 'which the rules never allow: make that tool callable, or drop the rule.';
    expect(await errorsOf([...pair, required('memory_insert')])).toEqual([
      {
        path: '/tool_rules/2/tool_name',
        message: `'memory_insert' must be called before a run may end, but only directly after 'memory_rethink', ${callable}`,
      },
    ]);
    expect(await errorsOf([...pair, required('memory_rethink')])).toBeUndefined();
    expect(await errorsOf([...circle, required('memory_replace')])).toMatchObject([
      { path: '/tool_rules/2/tool_name' },
    ]);
    const result = { type: 'json_schema', json_schema: { name: 'r', schema: { type: 'object' } } };
    expect(await errorsOf(circle, { response_format: result })).toMatchObject([
      {
        path: '/tool_rules',
        message: expect.stringMatching(/^'finish' must be called to hand over/) as string,
      },
    ]);
    expect(await errorsOf(circle, { response_format: { type: 'text' } })).toBeUndefined();
    // The agent may get the tool later, or a request may bring a tool with this name.
    expect(await errorsOf([parent('memory_rethink'), required('memory_insert')])).toBeUndefined();
    expect(await errorsOf([parent('ask_user'), required('memory_insert')])).toBeUndefined();
    expect(await errorsOf([parent('memory_replace'), required('memory_insert')])).toBeUndefined();
  });

  test('an agent with such rules from an earlier version continues', async () => {
    const id = await createAgent(api);
    const rules = [
      { type: 'parent_last_tool', tool_name: 'memory_replace', children: ['memory_insert'] },
      { type: 'parent_last_tool', tool_name: 'memory_insert', children: ['memory_replace'] },
      { type: 'required_before_exit', tool_name: 'memory_insert' },
    ];
    await sql`update agent set tool_rules = ${JSON.stringify(rules)}::json where id = ${id.slice('agent-'.length)}`.execute(
      api.database.db,
    );
    expect((await api.call('GET', `/v1/agents/${id}`)).status).toBe(200);
    expect((await api.call('PATCH', `/v1/agents/${id}`, { name: 'still here' })).status).toBe(200);
    const requests = [{ agent_id: id, input: 'Go.' }];
    expect((await api.call('POST', '/v1/batches', { requests })).status).toBe(200);
  });

  test("names the field that leaves no room for the agent's thinking", async () => {
    const { body } = await create({ model, model_settings: { thinking: { budget_tokens: 2_000 } } });
    const path = `/v1/agents/${body.id}`;
    const pathsAfter = async (change: object): Promise<unknown> => {
      const { body } = await api.call('PATCH', path, change);
      return body.errors?.map(({ path }: { path: string }) => path);
    };
    expect(await pathsAfter({ max_tokens: 2_000 })).toEqual(['/max_tokens']);
    expect(await pathsAfter({ model_settings: { max_output_tokens: 2_000 } })).toEqual([
      '/model_settings/max_output_tokens',
    ]);
    expect(await pathsAfter({ model, llm_config: { max_tokens: 500 } })).toEqual(['/llm_config/max_tokens']);
    expect(
      await pathsAfter({ max_tokens: 500, model_settings: { thinking: { budget_tokens: 600 } } }),
    ).toEqual(['/model_settings/thinking/budget_tokens']);
    // A later model takes no budget.
    expect(await pathsAfter({ model: 'anthropic/claude-opus-5-5', max_tokens: 500 })).toBeUndefined();
    expect(await pathsAfter({ model })).toEqual(['/model']);
    expect(await pathsAfter({ llm_config: { handle: model } })).toEqual(['/llm_config/handle']);
    expect(await pathsAfter({ model, max_tokens: 1_000 })).toEqual(['/max_tokens']);
    expect(await pathsAfter({ model, max_tokens: 1_025 })).toBeUndefined();
    // Stored before the check existed.
    await api.database.pool.query(
      `update agent set model_settings = jsonb_set(model_settings::jsonb, '{extra,thinking,budget_tokens}', '500') where id = $1`,
      [body.id.slice(6)],
    );
    expect(await pathsAfter({ parallel_tool_calls: false })).toEqual([
      '/model_settings/thinking/budget_tokens',
    ]);
  });

  test('in two concurrent requests keeps both changes', async () => {
    const id = await createAgent(api);
    await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        api.call(
          'PATCH',
          `/v1/agents/${id}`,
          [
            { model_settings: { max_output_tokens: 77 } },
            { parallel_tool_calls: false },
            { embedding: 'openai/text-embedding-3-small' },
            { max_files_open: 3 },
          ][index % 4],
        ),
      ),
    );
    expect((await api.call('GET', `/v1/agents/${id}`)).body).toMatchObject({
      model_settings: { max_output_tokens: 77, parallel_tool_calls: false },
      embedding: 'openai/text-embedding-3-small',
      max_files_open: 3,
    });
  });

  test('keeps the definition of runs in progress', async () => {
    const id = await createAgent(api, { system: 'before' });
    const submit = () => api.call('POST', '/v1/batches', { requests: [{ agent_id: id, input: 'x' }] });
    await submit();
    await api.call('PATCH', `/v1/agents/${id}`, { system: 'after' });
    await submit();
    const { rows } = await api.database.pool.query(
      `select d.system from run r join definition d on d.id = r.definition_id where r.agent_id = $1 order by r.created_at`,
      [id.slice(6)],
    );
    expect(rows.map((row: { system: string }) => row.system)).toEqual(['before', 'after']);
  });
});

describe('deleting an agent', () => {
  test('hides it and keeps the results of its batches', async () => {
    const id = await createAgent(api);
    const batch = await api.call('POST', '/v1/batches', { requests: [{ agent_id: id, input: 'x' }] });
    const { status, body } = await api.call('DELETE', `/v1/agents/${id}`);
    expect([status, body]).toEqual([200, { message: `Agent id=${id} successfully deleted` }]);
    expect((await api.call('GET', `/v1/agents/${id}`)).status).toBe(404);
    expect((await api.call('DELETE', `/v1/agents/${id}`)).status).toBe(404);
    expect((await api.call('PATCH', `/v1/agents/${id}`, { name: 'x' })).status).toBe(404);
    expect((await api.call('GET', `/v1/agents/${id}/messages`)).status).toBe(404);
    expect((await api.call('GET', `/v1/batches/${batch.body.id}/messages`)).body.messages).toHaveLength(1);
  });

  test('answers 422 for malformed ids and 404 for unknown ids', async () => {
    expect((await api.call('GET', '/v1/agents/agent-1')).status).toBe(422);
    expect((await api.call('GET', `/v1/agents/AGENT-${UNKNOWN_UUID}`)).status).toBe(422);
    expect((await api.call('GET', `/v1/agents/agent-${UNKNOWN_UUID}`)).status).toBe(404);
  });
});

describe('listing agents', () => {
  test('pages both ways over equal times and deleted agents without loss', async () => {
    const fresh = await openApi();
    const ids: string[] = [];
    for (let i = 0; i < 9; i++) ids.push(await createAgent(fresh, { name: `n${i}` }));
    await fresh.database.pool.query(`update agent set created_at = date_trunc('hour', created_at)`);
    const expected = ids.toSorted().reverse();
    for (const order of ['desc', 'asc']) {
      const wanted = order === 'desc' ? expected : expected.toReversed();
      const forwards: string[] = [];
      for (let after = ''; ;) {
        const { body } = await fresh.call('GET', `/v1/agents/?limit=2&order=${order}&after=${after}`);
        if (body.length === 0) break;
        forwards.push(...body.map((agent: { id: string }) => agent.id));
        after = body.at(-1).id;
      }
      expect(forwards).toEqual(wanted);
      const backwards: string[] = [];
      for (let before = wanted.at(-1)!; ;) {
        const { body } = await fresh.call('GET', `/v1/agents/?limit=2&order=${order}&before=${before}`);
        if (body.length === 0) break;
        backwards.unshift(...body.map((agent: { id: string }) => agent.id));
        before = body[0].id;
      }
      expect(backwards).toEqual(wanted.slice(0, -1));
    }
    const seen: string[] = [];
    for (let after = ''; ;) {
      const { body } = await fresh.call('GET', `/v1/agents/?limit=2&after=${after}`);
      if (body.length === 0) break;
      for (const agent of body) {
        seen.push(agent.id);
        await fresh.call('DELETE', `/v1/agents/${agent.id}`);
      }
      after = body.at(-1).id;
    }
    expect(seen).toEqual(expected);
    await fresh.close();
  });

  test('pages by last change, oldest first, over deleted agents without loss', async () => {
    const fresh = await openApi();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await createAgent(fresh, { name: `n${i}` }));
    const seen: string[] = [];
    for (let after = ''; ;) {
      const { body } = await fresh.call(
        'GET',
        `/v1/agents/?limit=2&order=asc&order_by=updated_at&after=${after}`,
      );
      if (body.length === 0) break;
      for (const agent of body) {
        seen.push(agent.id);
        await fresh.call('DELETE', `/v1/agents/${agent.id}`);
      }
      after = body.at(-1).id;
    }
    expect(seen).toEqual(ids);
    await fresh.close();
  });

  test('filters by name, part of the name and tag; omits hidden agents; includes relations on request', async () => {
    const fresh = await openApi();
    await createAgent(fresh, { name: 'Ann 100', tags: ['x', 'y'] });
    await createAgent(fresh, { name: 'Annabel' });
    await createAgent(fresh, { name: 'Ann hidden', hidden: true });
    const names = async (query: string) =>
      (await fresh.call('GET', `/v1/agents/?${query}`)).body.map((agent: { name: string }) => agent.name);
    expect(await names('')).toEqual(['Annabel', 'Ann 100']);
    expect(await names('name=Annabel')).toEqual(['Annabel']);
    expect(await names('query_text=ann')).toEqual(['Annabel', 'Ann 100']);
    expect(await names('query_text=%25')).toEqual([]);
    expect(await names('tags=x&tags=z')).toEqual(['Ann 100']);
    expect(await names('tags=x&tags=y&match_all_tags=true')).toEqual(['Ann 100']);
    expect(await names('ascending=true')).toEqual(['Ann 100', 'Annabel']);
    expect(await names('order_by=updated_at')).toEqual(['Annabel', 'Ann 100']);
    const bare = (await fresh.call('GET', '/v1/agents/?name=Annabel')).body[0];
    expect([bare.blocks, bare.tools]).toEqual([[], []]);
    const full = (
      await fresh.call('GET', '/v1/agents/?name=Annabel&include=agent.blocks&include=agent.tools')
    ).body[0];
    expect([full.blocks.length, full.tools.length]).toEqual([1, 3]);
    await fresh.close();
  });
});

describe("an agent's blocks and tools", () => {
  test('lists, reads, changes, attaches and detaches blocks by label', async () => {
    const id = await createAgent(api, { memory_blocks: [{ label: 'a/b c', value: '1' }] });
    const other = (await api.call('POST', '/v1/blocks/', { label: 'other', value: '2' })).body;
    const attached = await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/attach/${other.id}`);
    expect(attached.body.blocks.map((block: { label: string }) => block.label)).toEqual(['a/b c', 'other']);
    expect((await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/attach/${other.id}`)).status).toBe(
      200,
    );
    expect((await api.call('GET', `/v1/agents/${id}/core-memory/blocks?limit=1`)).body[0].label).toBe(
      'other',
    );
    const path = `/v1/agents/${id}/core-memory/blocks/a%2Fb%20c`;
    expect((await api.call('GET', path)).body.value).toBe('1');
    expect((await api.call('PATCH', path, { value: '3' })).body).toMatchObject({ value: '3', revision: 2 });
    expect((await api.call('GET', `/v1/agents/${id}/core-memory/blocks/none`)).status).toBe(404);

    const twin = (await api.call('POST', '/v1/blocks/', { label: 'other', value: '2' })).body;
    const conflict = await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/attach/${twin.id}`);
    expect([conflict.status, conflict.headers['x-should-retry']]).toEqual([409, 'false']);

    const detached = await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/detach/${other.id}`);
    expect(detached.body.blocks).toHaveLength(1);
    expect((await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/detach/${other.id}`)).status).toBe(
      404,
    );
    expect(
      (await api.call('PATCH', `/v1/agents/${id}/core-memory/blocks/attach/block-${UNKNOWN_UUID}`)).status,
    ).toBe(404);
  });

  test('attaches and detaches tools, and answers null', async () => {
    const id = await createAgent(api, { include_base_tools: false });
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_rethink')).body;
    for (let i = 0; i < 2; i++) {
      const answer = await api.call('PATCH', `/v1/agents/${id}/tools/attach/${tool.id}`);
      expect([answer.status, answer.body]).toEqual([200, null]);
    }
    expect(namesOf((await api.call('GET', `/v1/agents/${id}/tools`)).body)).toEqual(['memory_rethink']);
    expect((await api.call('PATCH', `/v1/agents/${id}/tools/detach/${tool.id}`)).body).toBeNull();
    expect((await api.call('GET', `/v1/agents/${id}/tools`)).body).toEqual([]);
    expect((await api.call('PATCH', `/v1/agents/${id}/tools/attach/tool-${UNKNOWN_UUID}`)).status).toBe(404);
    expect((await api.call('PATCH', `/v1/agents/agent-${UNKNOWN_UUID}/tools/attach/${tool.id}`)).status).toBe(
      404,
    );
  });
});

describe("an agent's response format", () => {
  const schema = { type: 'object', properties: { grade: { type: 'string' } } };
  const typed = { type: 'json_schema', json_schema: { name: 'grade', strict: true, schema } };
  /** The result formats of a batch's runs, in request order. */
  const owed = async (agent_id: string, requests: readonly object[]) => {
    const { body } = await api.call('POST', '/v1/batches', {
      requests: requests.map((request) => ({ agent_id, input: 'Go on.', ...request })),
    });
    const rows = await api.database.db
      .selectFrom('run')
      .innerJoin('definition', 'definition.id', 'run.definition_id')
      .select('definition.result_format')
      .where('batch_id', '=', body.id.slice(4))
      .orderBy('ordinal')
      .execute();
    return rows.map((row) => row.result_format);
  };

  test.each([
    ['as a field', { response_format: typed }],
    ['in its model settings', { model_settings: { response_format: typed } }],
    ['in its llm_config', { llm_config: { response_format: typed } }],
    [
      'in all three places, model settings first',
      {
        model_settings: { response_format: typed },
        response_format: { type: 'json_object' },
        llm_config: { response_format: { type: 'text' } },
      },
    ],
  ])('given %s applies to its runs and is answered', async (_where, format) => {
    const { body } = await create({ model, ...format });
    expect(body).toMatchObject({ response_format: typed, model_settings: { response_format: typed } });
    expect(await owed(body.id, [{}])).toEqual([{ schema }]);
  });

  test("is overridden by the request's format, even by text", async () => {
    const id = await createAgent(api, { response_format: { type: 'json_object' } });
    const own = { response_format: { type: 'json_schema', json_schema: { schema: { type: 'integer' } } } };
    expect(await owed(id, [{}, own, { response_format: { type: 'text' } }, {}])).toEqual([
      { schema: { type: 'object' } },
      { schema: { type: 'integer' } },
      null,
      { schema: { type: 'object' } },
    ]);
  });

  test('is changed, kept by null, and removed by text', async () => {
    const id = await createAgent(api, { response_format: { type: 'json_object' } });
    const patch = async (change: object) =>
      (await api.call('PATCH', `/v1/agents/${id}`, change)).body.response_format;
    expect(await patch({ response_format: null, name: 'same' })).toEqual({ type: 'json_object' });
    expect(await patch({ response_format: typed })).toEqual(typed);
    expect(await owed(id, [{}])).toEqual([{ schema }]);
    expect(await patch({ response_format: { type: 'text' } })).toEqual({ type: 'text' });
    expect(await owed(id, [{}])).toEqual([null]);
  });
});

test("an agent's messages are chronological in any order; cursors mean newer and older", async () => {
  const agent_id = await createAgent(api);
  await api.call('POST', '/v1/batches', {
    requests: [
      { agent_id, messages: ['1', '2', '3', '4', '5'].map((content) => ({ role: 'user', content })) },
    ],
  });
  const texts = async (query: string) =>
    (await api.call('GET', `/v1/agents/${agent_id}/messages?${query}`)).body.map(
      (message: { content: string }) => message.content,
    );
  expect(await texts('')).toEqual(['1', '2', '3', '4', '5']);
  expect(await texts('limit=2')).toEqual(['4', '5']);
  expect(await texts('limit=2&order=asc')).toEqual(['1', '2']);
  const all = (await api.call('GET', `/v1/agents/${agent_id}/messages`)).body;
  expect(all[0]).toMatchObject({ message_type: 'user_message', run_id: expect.stringMatching(/^run-/) });
  expect(await texts(`after=${all[2].id}`)).toEqual(['4', '5']);
  expect(await texts(`after=${all[0].id}&order=asc&limit=2`)).toEqual(['2', '3']);
  expect(await texts(`before=${all[3].id}&limit=2`)).toEqual(['2', '3']);
  for (const order of ['asc', 'desc']) {
    const seen: string[][] = [];
    for (
      let url = `/v1/agents/${agent_id}/messages?order=${order}&limit=2&after=${all[0].id}`;
      url !== '' && seen.length < 9;
    ) {
      const { body, headers } = await api.call('GET', url);
      if (body.length > 0) seen.push(body.map((message: { content: string }) => message.content));
      [, url = ''] = /^<(.*)>; rel="next"$/.exec(headers['link'] ?? '') ?? [];
    }
    const pages = [
      ['2', '3'],
      ['4', '5'],
    ];
    expect(seen).toEqual(order === 'asc' ? pages : pages.toReversed());
  }
  const state = (await api.call('GET', `/v1/agents/${agent_id}`)).body;
  expect(state.message_ids).toEqual(all.map((message: { id: string }) => message.id));
  const block = (await api.call('GET', `/v1/agents/${agent_id}/core-memory/blocks`)).body[0];
  for (const list of ['/v1/agents?limit=1', `/v1/blocks/${block.id}/agents`]) {
    const { body } = await api.call('GET', list);
    expect(body).toMatchObject([{ id: agent_id, message_ids: state.message_ids }]);
  }
});
