import { checkInputSchema, checkResultSchema } from '@nightshift/agent-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { assertSchemas } from '@nightshift/intake';
import { batchInput } from '../src/schemas/batch.ts';
import { countRows, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const tool = (name: string, property = 'text') => ({
  name,
  parameters: { type: 'object', properties: { [property]: { type: 'string' } } },
});
const result = (schema: object) => ({ type: 'json_schema', json_schema: { schema } });

describe('schemas of requests', () => {
  test('are compiled once per distinct schema', async () => {
    const compiled = { tool: 0, result: 0 };
    const request = {
      agent_id: `agent-${UNKNOWN_UUID}`,
      input: 'Go.',
      client_tools: [tool('ask'), tool('tell'), tool('show', 'page')],
      response_format: result({ type: 'integer' }),
    };
    const body = batchInput.parse(JSON.parse(JSON.stringify({ requests: Array(5_000).fill(request) })));
    await assertSchemas(body, {
      tool: (schema) => {
        compiled.tool++;
        return checkInputSchema(schema);
      },
      result: (schema) => {
        compiled.result++;
        return checkResultSchema(schema);
      },
    });
    expect(compiled).toEqual({ tool: 2, result: 1 });
  });

  test('are not compiled during validation, so other requests are not delayed', () => {
    const unusable = { name: 'ask', parameters: { type: 'array' } };
    const requests = [{ agent_id: `agent-${UNKNOWN_UUID}`, input: 'Go.', client_tools: [unusable] }];
    expect(batchInput.safeParse({ requests }).success).toBe(true);
  });

  test('are named in every place if they are unusable', async () => {
    const agent_id = await createAgent(api);
    const wrong = { name: 'ask', parameters: { type: 'array' } };
    const requests = [
      { agent_id, input: 'x', client_tools: [tool('tell'), wrong] },
      { agent_id, input: 'x', client_tools: [wrong], response_format: result({ type: 'x' }) },
    ];
    const answer = await api.call('POST', '/v1/batches', { requests });
    expect(answer.status).toBe(422);
    expect(answer.body.errors.map(({ path }: { path: string }) => path)).toEqual([
      '/requests/0/client_tools/1/parameters',
      '/requests/1/client_tools/0/parameters',
      '/requests/1/response_format/json_schema/schema',
    ]);
  });

  test('are checked in templates too', async () => {
    const agent_id = await createAgent(api);
    const template = { agent_id, input: '{{ x }}', response_format: result({ type: 'x' }) };
    const inputs = [{ custom_id: 'a', variables: { x: 'y' } }];
    const answer = await api.call('POST', '/v1/batches', { template, inputs });
    expect([answer.status, answer.body.errors[0].path]).toEqual([
      422,
      '/template/response_format/json_schema/schema',
    ]);
  });

  test('are limited to a thousand distinct schemas; the error names the next step', async () => {
    const agent_id = await createAgent(api);
    const before = await countRows(api);
    const requests = Array.from({ length: 1_001 }, (_, index) => ({
      agent_id,
      input: 'x',
      client_tools: [tool('ask', `p${index}`)],
    }));
    const answer = await api.call('POST', '/v1/batches', { requests });
    expect([answer.status, answer.body.errors[0].path]).toEqual([
      422,
      '/requests/1000/client_tools/0/parameters',
    ]);
    expect(answer.body.detail).toMatch(/1000 different schemas\. Use the same schemas/);
    expect(await countRows(api)).toEqual(before);
    expect((await api.call('POST', '/v1/batches', { requests: requests.slice(1) })).status).toBe(200);
  });

  test('are limited to two million characters in total, and refused before compilation', async () => {
    let compiled = 0;
    const count = () => {
      compiled++;
      return null;
    };
    const requests = Array.from({ length: 30 }, (_, index) => ({
      agent_id: `agent-${UNKNOWN_UUID}`,
      input: 'x',
      client_tools: [tool('ask'), tool('tell', `${index}`.padEnd(100_000, 'p'))],
    }));
    const refused = assertSchemas(batchInput.parse({ requests }), { tool: count, result: count });
    await expect(refused).rejects.toMatchObject({
      code: 'validation_failed',
      message: expect.stringMatching(/2000000 characters together\. Use the same schemas/),
      fields: [{ path: '/requests/19/client_tools/1/parameters' }],
    });
    expect(compiled).toBe(20);
  });
});
