import { inTransaction, registerModuleTools } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

describe('the approval of a tool', () => {
  const approval = (tool_name: string) => ({
    type: 'requires_approval',
    tool_name,
    prompt_template: null,
  });
  const rulesOf = async (id: string) => (await api.call('GET', `/v1/agents/${id}`)).body.tool_rules;

  test("is a rule that is added once and removed, by each of Letta's ways", async () => {
    const others = [approval('memory_replace'), { ...approval('memory_insert'), type: 'exit_loop' }];
    const id = await createAgent(api, { tool_rules: others });
    const path = `/v1/agents/${id}/tools/approval/memory_insert`;
    const wanted = [...others, approval('memory_insert')];
    for (const [url, body, rules] of [
      [path, { requires_approval: true }, wanted],
      [path, { body_requires_approval: true }, wanted],
      [`${path}?requires_approval=false`, undefined, others],
      [path, { body_requires_approval: false }, others],
      [`${path}?requires_approval=true`, {}, wanted],
      [path, { requires_approval: false }, others],
    ] as const) {
      const answer = await api.call('PATCH', url, body);
      expect([answer.status, answer.body]).toEqual([200, null]);
      expect(await rulesOf(id)).toEqual(rules);
    }
  });

  test('may be required before the agent has the tool; a rule of a deleted tool stays and affects no others', async () => {
    const refund = {
      name: 'refund',
      description: '',
      input_schema: {},
      side_effects: 'once',
      return_char_limit: 1_000,
      timeout_ms: 1_000,
    } as const;
    await inTransaction(api.database.db, (trx) => registerModuleTools(trx, PROJECT_ID, [refund]));
    const id = await createAgent(api, { tool_rules: [approval('refund'), approval('core_memory_append')] });
    for (const name of ['refund', 'core_memory_append']) {
      const [tool] = (await api.call('GET', `/v1/tools/?name=${name}`)).body;
      expect((await api.call('DELETE', `/v1/tools/${tool.id}`)).status).toBe(200);
    }
    const patch = (tool_rules: readonly object[]) => api.call('PATCH', `/v1/agents/${id}`, { tool_rules });
    const sentBack = [...(await rulesOf(id)).toReversed(), approval('memory_insert')];
    expect((await patch(sentBack)).status).toBe(200);
    const refused = await patch([...sentBack, approval('refunds')]);
    expect([refused.status, refused.body.errors]).toEqual([
      422,
      [{ path: '/tool_rules/3/tool_name', message: expect.stringContaining('GET /v1/tools/') }],
    ]);
    expect(await rulesOf(id)).toEqual(sentBack);
    // A built-in tool returns when it is given to an agent.
    await createAgent(api, { tool_rules: [approval('core_memory_append')] });
  });

  test('names the error in the request and changes nothing', async () => {
    const id = await createAgent(api);
    const path = `/v1/agents/${id}/tools/approval`;
    const unsaid = await api.call('PATCH', `${path}/memory_insert`, {});
    expect([unsaid.status, unsaid.body.errors[0].path]).toEqual([422, '/requires_approval']);
    const both = { requires_approval: true, body_requires_approval: false };
    expect((await api.call('PATCH', `${path}/memory_insert`, both)).status).toBe(422);
    for (const requires_approval of [true, false]) {
      expect((await api.call('PATCH', `${path}/memory_rethink`, { requires_approval })).status).toBe(404);
    }
    const unknownAgent = `/v1/agents/agent-${UNKNOWN_UUID}/tools/approval/memory_insert`;
    expect((await api.call('PATCH', unknownAgent, { requires_approval: true })).status).toBe(404);
    expect(await rulesOf(id)).toEqual([]);
  });

  test('that the tool itself requires cannot be removed from an agent', async () => {
    const [tool] = (await api.call('GET', '/v1/tools/?name=memory_rethink')).body;
    const id = await createAgent(api, { tool_ids: [tool.id] });
    await api.call('PATCH', `/v1/tools/${tool.id}`, { default_requires_approval: true });
    const answer = await api.call('PATCH', `/v1/agents/${id}/tools/approval/memory_rethink`, {
      requires_approval: false,
    });
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('default_requires')]);
    await api.call('PATCH', `/v1/tools/${tool.id}`, { default_requires_approval: false });
  });
});
