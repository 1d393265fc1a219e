import type {} from '../../../test/global-setup.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
let agent_id: string;
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());

async function submit(fields: object): Promise<string> {
  const { status, body } = await api.call('POST', '/v1/batches', {
    requests: [{ agent_id, input: 'Hello.', conversation: 'isolated' }],
    ...fields,
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

async function list(query: string): Promise<string[]> {
  const { status, body } = await api.call('GET', `/v1/batches?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return (body as { id: string }[]).map(({ id }) => id);
}
const metadata = (value: object): string => `metadata=${encodeURIComponent(JSON.stringify(value))}`;

describe('a batch with a name and tags', () => {
  test('answers with them, without a duplicate tag; they can be changed in any state', async () => {
    const id = await submit({ name: '  Nightly tickets ', tags: ['a', 'b', 'a'] });
    const read = async () => (await api.call('GET', `/v1/batches/${id}`)).body;
    expect(await read()).toMatchObject({
      name: 'Nightly tickets',
      tags: ['a', 'b'],
      stop_when: null,
      retry_of: null,
    });
    await api.call('POST', `/v1/batches/${id}/cancel`);
    const { body } = await api.call('PATCH', `/v1/batches/${id}`, { name: null, tags: ['c'] });
    expect(body).toMatchObject({ name: null, tags: ['c'], state: 'cancelling' });
    expect(await list('tag=a')).not.toContain(id);
    expect(await list('tag=c')).toEqual([id]);
    await api.call('PATCH', `/v1/batches/${id}`, { tags: null });
    expect(await list('tag=c')).toEqual([]);
  });

  test.each([
    [{ name: ' ' }, '/name'],
    [{ name: 'x'.repeat(201) }, '/name'],
    [{ tags: [''] }, '/tags/0'],
    [{ tags: ['x'.repeat(101)] }, '/tags/0'],
    [{ stop_when: {} }, '/stop_when'],
    [{ stop_when: { first: 0 } }, '/stop_when/first'],
    [{ stop_when: { failure_rate: 1.5 } }, '/stop_when/failure_rate'],
    [{ stop_when: { first: 1, after: 5 } }, '/stop_when/after'],
  ])('is refused with a wrong field: %j', async (fields, path) => {
    const { status, body } = await api.call('POST', '/v1/batches', {
      requests: [{ agent_id, input: 'Hello.' }],
      ...fields,
    });
    expect(status).toBe(422);
    expect(body.errors[0].path).toBe(path);
  });
});

describe('a list of batches', () => {
  test('is filtered by tag, part of the name, state, metadata, schedule, retried batch and time', async () => {
    const first = await submit({
      name: 'Invoices of May',
      tags: ['money'],
      metadata: { team: 'sales', n: 7, deep: {} },
    });
    const second = await submit({
      name: 'INVOICES 100 %',
      tags: ['money', 'late'],
      metadata: { team: 'support' },
    });
    expect(await list('tag=money')).toEqual([second, first]);
    expect(await list('tag=money&order=asc')).toEqual([first, second]);
    expect(await list('tag=money&limit=1')).toEqual([second]);
    expect(await list(`tag=money&limit=1&after=${second}`)).toEqual([first]);
    expect(await list(`tag=money&limit=1&before=${first}`)).toEqual([second]);
    expect(await list('tag=late&state=running')).toEqual([second]);
    expect(await list('tag=late&state=paused')).toEqual([]);
    expect(await list('name=invoices')).toEqual([second, first]);
    expect(await list(`name=${encodeURIComponent('100 %')}`)).toEqual([second]);
    expect(await list('name=voices%25of')).toEqual([]);
    expect(await list(metadata({ team: 'sales' }))).toEqual([first]);
    expect(await list(metadata({ n: 7 }))).toEqual([first]);
    expect(await list(metadata({ n: '7' }))).toEqual([]);
    expect(await list('state=running')).toEqual(expect.arrayContaining([first, second]));
    const { body } = await api.call('GET', `/v1/batches/${second}`);
    const time = encodeURIComponent(body.created_at);
    expect(await list(`created_before=${time}&tag=money`)).toEqual([first]);
    expect(await list(`created_after=${time}&tag=money`)).toEqual([second]);
    expect(await list(`retry_of=${first}`)).toEqual([]);
  });

  test.each([
    ['tag=a&name=abc', '?name', 'cannot be combined with tag: no index serves both'],
    ['tag=a&state=completed', '?state', '?state=completed cannot be combined with tag'],
    [
      `retry_of=job-01890000-0000-7000-8000-000000000000&${metadata({ a: 1 })}`,
      '?metadata',
      'cannot be combined with retry_of',
    ],
    ['name=ab', '?name', 'must have at least 3 characters'],
    [metadata({ a: 1, b: 2 }), '?metadata', 'must have exactly one property'],
    [metadata({ a: {} }), '?metadata', 'must have a string, number, boolean or null'],
    ['metadata=x', '?metadata', 'must be a JSON object'],
    ['state=done', '?state', ''],
    ['agent_id=x', '?agent_id', ''],
  ])('refuses filters that no index serves: %s', async (query, path, message) => {
    const { status, body } = await api.call('GET', `/v1/batches?${query}`);
    expect(status).toBe(422);
    expect(body.errors[0].path).toBe(path);
    expect(body.detail).toContain(message);
  });
});
