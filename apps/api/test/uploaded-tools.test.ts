import { inTransaction, registerModuleTools } from '@nightshift/db';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const parameters = {
  type: 'object',
  properties: { note: { type: 'string' }, place: { type: 'string' } },
  required: ['place'],
};

const upload = (name: string, rest: object = {}): object => ({
  source_type: 'typescript',
  source_code: `export async function ${name}(place: string, note?: string): Promise<string> {\n  return place;\n}`,
  json_schema: { name, description: 'Looks a place up.', parameters },
  ...rest,
});

const request = (name: string, http: object, rest: object = {}): object => ({
  source_type: 'http',
  json_schema: { name, description: 'Asks a service.', parameters },
  http: { method: 'GET', url: 'https://api.example.com/places/{{place}}', ...http },
  ...rest,
});

describe('uploaded code', () => {
  test('is stored without types, shown as it was sent, and replaced under the same id by its name', async () => {
    const first = await api.call('POST', '/v1/tools/', upload('look_up', { side_effects: 'none' }));
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({
      name: 'look_up',
      kind: 'sandbox',
      tool_type: 'custom',
      source_type: 'typescript',
      side_effects: 'none',
      timeout_ms: 30_000,
      network: [],
      secrets: [],
      http: null,
      description: 'Looks a place up.',
    });
    expect(first.body.source_code).toContain('place: string');
    const { rows } = await api.database.pool.query<{ code: string; source: object }>(
      `select c.code, t.source from tool t join tool_code c on c.sha256 = t.source->>'code_sha256' where t.name = 'look_up'`,
    );
    expect(rows[0]?.code).not.toContain('Promise<string>');
    expect(rows[0]?.source).toMatchObject({ parameters: ['place', 'note'] });

    const second = await api.call('PUT', '/v1/tools/', upload('look_up', { network: ['api.example.com'] }));
    expect(second.body).toMatchObject({
      id: first.body.id,
      network: ['api.example.com'],
      side_effects: 'once',
    });
  });

  test('of a tool changes by PATCH, its name and form do not', async () => {
    const { body } = await api.call('POST', '/v1/tools/', upload('change_me'));
    const path = `/v1/tools/${body.id as string}`;
    const changed = await api.call('PATCH', path, {
      source_code: 'export function change_me(place) { return place + "!"; }',
      timeout_ms: 1_000,
      metadata_: { team: 'night' },
    });
    expect(changed.body).toMatchObject({
      id: body.id,
      timeout_ms: 1_000,
      metadata_: { team: 'night' },
      description: 'Looks a place up.',
    });
    for (const patch of [{ source_type: 'http' }, { json_schema: { name: 'other', parameters } }]) {
      const refused = await api.call('PATCH', path, patch);
      expect(refused.status).toBe(400);
      expect(refused.body.detail).toMatch(/cannot be changed/);
    }
  });

  test('can be given to an agent, whose next batch has it frozen in its definition', async () => {
    const { body } = await api.call('POST', '/v1/tools/', upload('frozen', { side_effects: 'none' }));
    const agentId = await createAgent(api, { tool_ids: [body.id as string] });
    const made = await api.call('POST', '/v1/messages/batches', {
      requests: [{ agent_id: agentId, input: 'Hello' }],
    });
    expect(made.status).toBe(200);
    const { rows } = await api.database.pool.query<{ tools: { name: string; source?: object }[] }>(
      'select tools from definition',
    );
    const tool = rows.flatMap(({ tools }) => tools).find(({ name }) => name === 'frozen');
    expect(tool).toMatchObject({ kind: 'sandbox', source: { code_sha256: /^[0-9a-f]{64}$/ } });
  });

  test.each<[string, object, string, RegExp]>([
    [
      'without its function',
      upload('missing', { source_code: 'function other() {}' }),
      '/source_code',
      /missing/,
    ],
    [
      'with a syntax error',
      upload('broken', { source_code: 'export function broken( {' }),
      '/source_code',
      /line 1/,
    ],
    ['over 256 KB', upload('long', { source_code: ' '.repeat(262_145) }), '/source_code', /262144/],
    [
      'with packages',
      upload('packed', { npm_requirements: [{ name: 'left-pad' }] }),
      '/npm_requirements',
      /empty/,
    ],
    [
      'with a request',
      upload('both', { http: { method: 'GET', url: 'https://a.example' } }),
      '/http',
      /http/,
    ],
    [
      'with a schema that no provider takes',
      upload('odd', { json_schema: { name: 'odd', parameters: { type: 'string' } } }),
      '/json_schema/parameters',
      /type 'object'/,
    ],
    ['with a wrong name', upload('bad name'), '/json_schema/name', /1 to 64/],
    ['with the name of a built-in tool', upload('finish'), '/json_schema/name', /built-in/],
    [
      'with a value for a function',
      upload('stock', { source_code: 'const stock = 5;' }),
      '/source_code',
      /function stock/,
    ],
  ])('%s is refused, and the field is named', async (_what, body, path, told) => {
    const answer = await api.call('POST', '/v1/tools/', body);
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ errors: [{ path }] });
    expect(answer.body.detail).toMatch(told);
  });
});

describe('an HTTP tool', () => {
  test('is stored with its request and the names of its secrets, which must exist', async () => {
    const unknown = await api.call(
      'POST',
      '/v1/tools/',
      request('ask', { headers: { key: '{{secrets.NONE}}' } }),
    );
    expect(unknown).toMatchObject({ status: 400, body: { errors: [{ path: '/http/headers' }] } });
    expect(unknown.body.detail).toMatch(/NONE/);
    expect((await api.call('PUT', '/v1/secrets/PLACES_KEY', { value: 'v' })).status).toBe(200);
    const answer = await api.call(
      'POST',
      '/v1/tools/',
      request('ask', {
        headers: { authorization: 'Bearer {{secrets.PLACES_KEY}}' },
        query: { note: '{{note}}' },
        result: '/items/0',
      }),
    );
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      kind: 'http',
      source_type: 'http',
      source_code: null,
      secrets: ['PLACES_KEY'],
      http: { method: 'GET', result: '/items/0' },
    });
  });

  test('keeps its request, schema and description when another field is changed', async () => {
    const made = await api.call(
      'POST',
      '/v1/tools/',
      request('kept', { headers: { key: '{{secrets.PLACES_KEY}}' } }, { default_requires_approval: true }),
    );
    const path = `/v1/tools/${made.body.id as string}`;
    const changed = await api.call('PATCH', path, { tags: ['night'] });
    expect(changed).toMatchObject({ status: 200, body: { ...made.body, tags: ['night'] } });
    const renamed = await api.call('PATCH', path, {
      json_schema: { name: 'kept', description: 'Asks again.' },
    });
    expect(renamed.body).toMatchObject({ description: 'Asks again.', json_schema: { parameters } });
    const again = await api.call('POST', '/v1/tools/', request('kept', {}));
    expect(again.body).toMatchObject({ tags: ['night'], default_requires_approval: true });
  });

  test.each<[string, object, string]>([
    ['that names no argument', request('bad', { query: { q: '{{town}}' } }), '/http/query/q'],
    ['with a template in its host', request('bad', { url: 'https://{{place}}/' }), '/http/url'],
    ['with a secret in its query', request('bad', { query: { k: '{{secrets.KEY}}' } }), '/http/query/k'],
    ['with a method that is none', request('bad', { method: 'LOOK' }), '/http/method'],
    ['without a request', request('bad', {}, { http: null }), '/http'],
    ['with code', request('bad', {}, { source_code: 'export function bad() {}' }), '/source_code'],
  ])('%s is refused, and the field is named', async (_what, body, path) => {
    const answer = await api.call('POST', '/v1/tools/', body);
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ errors: [{ path }] });
  });
});

test('a name of a module of the operator is not taken over', async () => {
  await inTransaction(api.database.db, (trx) =>
    registerModuleTools(trx, PROJECT_ID, [
      {
        name: 'theirs',
        description: '',
        input_schema: parameters,
        side_effects: 'none',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ]),
  );
  const answer = await api.call('PUT', '/v1/tools/', upload('theirs'));
  expect(answer.status).toBe(409);
  expect(answer.body.detail).toMatch(/belongs to/);
});
