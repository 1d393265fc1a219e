import { MEMORY_TOOLS } from '@nightshift/agent-core';
import { inTransaction, registerModuleTools } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const weather = {
  name: 'weather',
  description: 'Says how the weather is.',
  input_schema: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  side_effects: 'none',
  return_char_limit: 1_000,
  timeout_ms: 5_000,
} as const;

describe('uploading a tool', () => {
  test.each(['POST', 'PUT'] as const)(
    '%s of rethink_memory answers the built-in tool, whatever its source',
    async (method) => {
      const bySchema = await api.call(method, '/v1/tools/', {
        source_code: 'function whatever() {}',
        source_type: 'javascript',
        json_schema: { name: 'rethink_memory', parameters: {} },
      });
      expect(bySchema.status).toBe(200);
      expect(bySchema.body).toMatchObject({
        id: expect.stringMatching(/^tool-/),
        name: 'rethink_memory',
        tool_type: 'custom',
        json_schema: {
          name: 'rethink_memory',
          parameters: { required: ['new_memory', 'target_block_label'] },
        },
      });
      const byPython = await api.call(method, '/v1/tools/', {
        source_code:
          'def rethink_memory(agent_state, new_memory: str, target_block_label: str):\n    """x"""\n    return None\n',
        tags: ['mine'],
        return_char_limit: 123,
      });
      expect(byPython.body).toMatchObject({ id: bySchema.body.id, tags: ['mine'], return_char_limit: 123 });
    },
  );

  test('of a form that no runner has is refused with 400 and the next step', async () => {
    const body = { source_code: '', source_type: 'client', json_schema: { name: 'fax' } };
    const answer = await api.call('POST', '/v1/tools/', body);
    expect(answer.status).toBe(400);
    expect(answer.body.detail).toMatch(/'fax'.*modules/);
  });

  test('without a name is 400, with an unknown field or no source 422', async () => {
    expect((await api.call('POST', '/v1/tools/', { source_code: 'x = 1' })).status).toBe(400);
    const named = await api.call('POST', '/v1/tools/', { source_code: '', name: 'x' });
    expect([named.status, named.body.errors[0].path]).toEqual([422, '/name']);
    expect((await api.call('POST', '/v1/tools/', { json_schema: { name: 'x' } })).status).toBe(422);
  });
});

describe('tools', () => {
  test('are listed with filters', async () => {
    const names = async (query: string) =>
      (await api.call('GET', `/v1/tools/?${query}`)).body.map((tool: { name: string }) => tool.name).sort();
    expect(await names('')).toEqual(['finish', ...MEMORY_TOOLS.map((tool) => tool.name)].toSorted());
    expect(await names('name=memory_insert')).toEqual(['memory_insert']);
    expect(await names('names=memory_insert&names=rethink_memory')).toEqual([
      'memory_insert',
      'rethink_memory',
    ]);
    expect(await names('name=rethink_memory&names=memory_insert')).toEqual([
      'memory_insert',
      'rethink_memory',
    ]);
    expect(await names('search=rethink_mem')).toEqual(['rethink_memory']);
    expect(await names('tool_types=letta_memory_core')).toEqual([
      'core_memory_append',
      'core_memory_replace',
      'memory',
      'memory_apply_patch',
      'memory_str_insert',
      'memory_str_replace',
    ]);
    const others = ['letta_memory_core', 'custom', 'letta_core', 'letta_voice_sleeptime_core'];
    expect(await names(others.map((type) => `exclude_tool_types=${type}`).join('&'))).toEqual([
      'memory_finish_edits',
      'memory_insert',
      'memory_replace',
      'memory_rethink',
    ]);
    expect(await names('return_only_letta_tools=true')).not.toContain('rethink_memory');
    expect((await api.call('GET', '/v1/tools/?tool_types=magic')).status).toBe(400);
  });

  test('page without loss, also from a deleted tool', async () => {
    const all = (await api.call('GET', '/v1/tools/')).body.map((tool: { id: string }) => tool.id);
    const seen: string[] = [];
    for (let after = ''; ;) {
      const { body } = await api.call('GET', `/v1/tools/?limit=1&after=${after}`);
      if (body.length === 0) break;
      seen.push(body[0].id);
      after = body[0].id;
    }
    expect(seen).toEqual(all);
  });

  test('of a module appear when registered, follow its manifest, and can be given to agents', async () => {
    const register = (tool: Parameters<typeof registerModuleTools>[2][number]) =>
      inTransaction(api.database.db, (trx) => registerModuleTools(trx, PROJECT_ID, [tool]));
    await register(weather);
    const [tool] = (await api.call('GET', '/v1/tools/?name=weather')).body;
    expect(tool).toMatchObject({ kind: 'module', tool_type: 'custom', description: weather.description });
    const agent = await createAgent(api, { tools: ['weather'] });
    await register({ ...weather, description: 'New.', side_effects: 'once' });
    const after = (await api.call('GET', `/v1/tools/${tool.id}`)).body;
    expect(after).toMatchObject({ id: tool.id, description: 'New.', enable_parallel_execution: false });
    expect((await api.call('GET', `/v1/agents/${agent}/tools?name=`)).status).toBe(422);
    await api.call('DELETE', `/v1/tools/${tool.id}`);
    const named = { model: 'anthropic/claude-haiku-4-5', tools: ['weather'] };
    const gone = await api.call('POST', '/v1/agents', named);
    expect([gone.status, gone.body.errors[0].message]).toEqual([
      400,
      "there is no tool named 'weather'; GET /v1/tools/ lists all tools. A deleted module tool returns when a worker " +
        "starts; the workers' log names modules that could not be loaded",
    ]);
    await register(weather);
    expect((await api.call('POST', '/v1/agents', named)).status).toBe(200);
    // A module cannot take a built-in's name.
    await register({ ...weather, name: 'memory_insert' });
    expect((await api.call('GET', '/v1/tools/?name=memory_insert')).body[0].kind).toBe('memory');
  });

  test('change in the caller’s fields, but not in their code', async () => {
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_insert')).body;
    const changed = await api.call('PATCH', `/v1/tools/${tool.id}`, {
      tags: ['t'],
      return_char_limit: 10,
      default_requires_approval: false,
      metadata_: { a: 1 },
      description: null,
    });
    expect(changed.body).toMatchObject({
      tags: ['t'],
      return_char_limit: 10,
      default_requires_approval: false,
      metadata_: { a: 1 },
      description: tool.description,
    });
    for (const refused of [
      { source_code: 'x' },
      { source_type: 'javascript' },
      { description: 'x' },
      { json_schema: {} },
      { args_json_schema: {} },
      { enable_parallel_execution: false },
      { pip_requirements: [{ name: 'x' }] },
      { npm_requirements: [{ name: 'x' }] },
    ]) {
      const { status, body } = await api.call('PATCH', `/v1/tools/${tool.id}`, refused);
      expect([status, body.errors.map(({ path }: { path: string }) => path)]).toEqual([
        400,
        [`/${Object.keys(refused)[0]}`],
      ]);
    }
    const { source_code, source_type, description, json_schema, enable_parallel_execution } = tool;
    expect(source_code).toBeNull();
    const same = {
      source_code,
      source_type,
      description,
      json_schema,
      enable_parallel_execution,
      pip_requirements: [],
      npm_requirements: null,
    };
    expect((await api.call('PATCH', `/v1/tools/${tool.id}`, same)).status).toBe(200);
    expect((await api.call('PATCH', `/v1/tools/tool-${UNKNOWN_UUID}`, { tags: [] })).status).toBe(404);
  });

  test('can require approval, by a change or an upload', async () => {
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_insert')).body;
    const source_code = 'def memory_insert():\n    pass';
    const read = async () => (await api.call('GET', `/v1/tools/${tool.id}`)).body.default_requires_approval;
    for (const default_requires_approval of [true, false]) {
      await api.call('PATCH', `/v1/tools/${tool.id}`, { default_requires_approval });
      expect(await read()).toBe(default_requires_approval);
    }
    await api.call('PUT', '/v1/tools/', { source_code, default_requires_approval: true });
    expect(await read()).toBe(true);
    await api.call('POST', '/v1/tools/', { source_code, default_requires_approval: false });
    expect(await read()).toBe(false);
  });

  test('are removed from every agent when deleted; add-base-tools restores built-in tools', async () => {
    const agent = await createAgent(api, { include_base_tools: false, tools: ['memory_rethink'] });
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_rethink')).body;
    expect((await api.call('DELETE', `/v1/tools/${tool.id}`)).body).toBeNull();
    expect((await api.call('GET', `/v1/agents/${agent}/tools`)).body).toEqual([]);
    expect((await api.call('GET', `/v1/tools/${tool.id}`)).status).toBe(404);
    expect((await api.call('DELETE', `/v1/tools/${tool.id}`)).status).toBe(404);
    const base = await api.call('POST', '/v1/tools/add-base-tools');
    expect(base.body.map((item: { name: string }) => item.name)).toContain('memory_rethink');
  });
});
