import { inTransaction, registerModuleTools } from '@nightshift/db';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, PROJECT_ID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const UPLOAD = {
  source_type: 'http',
  json_schema: { name: 'ask', description: 'Asks.', parameters: { type: 'object', properties: {} } },
  http: { method: 'GET', url: 'https://api.example.com/' },
};

test('limits of an uploaded tool stay until other limits replace them', async () => {
  const stored = await api.call('POST', '/v1/tools', { ...UPLOAD, limits: { concurrency: 5 } });
  expect(stored.body).toMatchObject({ limits: { concurrency: 5, rate_per_minute: null } });
  const again = await api.call('PUT', '/v1/tools', { ...UPLOAD, timeout_ms: 1_000 });
  expect(again.body).toMatchObject({ timeout_ms: 1_000, limits: { concurrency: 5, rate_per_minute: null } });
  const path = `/v1/tools/${stored.body.id}`;
  const paced = await api.call('PATCH', path, { limits: { rate_per_minute: 60 } });
  expect(paced.body).toMatchObject({ limits: { concurrency: null, rate_per_minute: 60 } });
  expect((await api.call('PATCH', path, { tags: ['slow'] })).body).toMatchObject({
    limits: { rate_per_minute: 60 },
  });
  expect((await api.call('PATCH', path, { limits: {} })).body).toMatchObject({
    limits: { concurrency: null, rate_per_minute: null },
  });
});

test("an operator limits a module's tool, and its registration keeps the limits", async () => {
  const weather = {
    name: 'weather',
    description: 'Says how the weather is.',
    input_schema: { type: 'object' },
    side_effects: 'none',
    return_char_limit: 100,
    timeout_ms: 1_000,
  } as const;
  const register = (timeout_ms: number) =>
    inTransaction(api.database.db, (trx) =>
      registerModuleTools(trx, PROJECT_ID, [{ ...weather, timeout_ms }]),
    );
  await register(1_000);
  const { body } = await api.call('GET', '/v1/tools?name=weather');
  const [tool] = body as unknown as { id: string }[];
  const limits = { concurrency: 2, rate_per_minute: 90 };
  expect((await api.call('PATCH', `/v1/tools/${tool!.id}`, { limits })).body).toMatchObject({ limits });
  await register(2_000);
  expect((await api.call('GET', `/v1/tools/${tool!.id}`)).body).toMatchObject({ timeout_ms: 2_000, limits });
});

test.each([
  [{ concurrency: 0 }, '/limits/concurrency'],
  [{ concurrency: 10_001 }, '/limits/concurrency'],
  [{ rate_per_minute: 1.5 }, '/limits/rate_per_minute'],
  [{ per_second: 1 }, '/limits/per_second'],
])('limits %j are refused at the field', async (limits, path) => {
  const { status, body } = await api.call('POST', '/v1/tools', { ...UPLOAD, limits });
  expect(status).toBe(422);
  expect(JSON.stringify(body)).toContain(path);
});

test('a built-in tool takes no limits, and nothing is changed', async () => {
  const { body } = await api.call('GET', '/v1/tools?name=core_memory_append');
  const [tool] = body as unknown as { id: string }[];
  const refused = await api.call('PATCH', `/v1/tools/${tool!.id}`, {
    limits: { concurrency: 1 },
    tags: ['x'],
  });
  expect(refused.status).toBe(400);
  expect(refused.body).toMatchObject({ errors: [{ path: '/limits' }] });
  expect((await api.call('GET', `/v1/tools/${tool!.id}`)).body).toMatchObject({ tags: [] });
});
