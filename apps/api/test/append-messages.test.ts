import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SMALL_BODY_BYTES_MAX } from '../src/json-body.ts';
import { countRows, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const append = (id: string, messages: unknown) =>
  api.call('POST', `/v1/agents/${id}/messages/append`, { messages });
const appendAll = (items: unknown) => api.call('POST', '/v1/messages/append', { items });
const said = (content: unknown, rest: object = {}) => ({ role: 'user', content, ...rest });
const listOfAgent = async (id: string) =>
  (await api.call('GET', `/v1/agents/${id}/messages?order=asc`)).body as Record<string, unknown>[];

describe('appended messages', () => {
  test('are listed in order with their time, marked, and belong to no run', async () => {
    const id = await createAgent(api);
    const { status, body } = await append(id, [
      said('Hello', { said_at: '2026-11-30T09:12:00.500+01:00', otid: 'o-1', name: 'Ann' }),
      { role: 'assistant', content: [{ type: 'text', text: 'Hi' }], otid: 'o-2' },
      { role: 'system', content: 'The line broke.' },
    ]);
    expect([status, body]).toEqual([200, { appended: 3, repeated: 0, waiting: 0 }]);
    const common = { appended: true, run_id: null, step_id: null };
    const messages = await listOfAgent(id);
    expect(messages).toMatchObject([
      {
        ...common,
        message_type: 'user_message',
        content: 'Hello',
        date: '2026-11-30T08:12:00+00:00',
        otid: 'o-1',
        name: 'Ann',
      },
      { ...common, message_type: 'assistant_message', content: 'Hi', otid: 'o-2' },
      { ...common, message_type: 'system_message', content: 'The line broke.' },
    ]);
    const agent = (await api.call('GET', `/v1/agents/${id}`)).body;
    expect(agent.message_ids).toEqual(messages.map((message) => message['id']));
  });

  test('come before the input of the next run, whose messages are not marked', async () => {
    const id = await createAgent(api);
    await append(id, [said('before')]);
    await api.call('POST', '/v1/batches', { requests: [{ agent_id: id, input: 'go' }] });
    expect((await append(id, [said('after', { otid: 'o' })])).body).toEqual({
      appended: 0,
      repeated: 0,
      waiting: 1,
    });
    expect((await append(id, [said('after', { otid: 'o' })])).body).toEqual({
      appended: 0,
      repeated: 1,
      waiting: 0,
    });
    expect((await listOfAgent(id)).map(({ content, appended }) => [content, appended])).toEqual([
      ['before', true],
      ['go', false],
    ]);
    expect((await api.call('PATCH', `/v1/agents/${id}/reset-messages`)).status).toBe(409);
  });

  test('of several agents go to each, also when an agent comes twice', async () => {
    const ids = [await createAgent(api), await createAgent(api)] as const;
    const [one, two] = ids.map((agent_id) => (text: string) => ({ agent_id, messages: [said(text)] }));
    const { status, body } = await appendAll([one!('a'), two!('b'), one!('c')]);
    expect([status, body]).toEqual([200, { appended: 3, repeated: 0, waiting: 0 }]);
    expect((await listOfAgent(ids[0])).map(({ content }) => content)).toEqual(['a', 'c']);
    expect((await listOfAgent(ids[1])).map(({ content }) => content)).toEqual(['b']);
  });

  test('of a large body are stored by the thread of large bodies', async () => {
    const id = await createAgent(api);
    expect((await append(id, [said('x'.repeat(SMALL_BODY_BYTES_MAX))])).body.appended).toBe(1);
    expect(await listOfAgent(id)).toHaveLength(1);
  });
});

describe('refused, and nothing is stored:', () => {
  test('an unknown agent names its item', async () => {
    const id = await createAgent(api);
    const before = await countRows(api);
    const { status, body } = await appendAll([
      { agent_id: id, messages: [said('a')] },
      { agent_id: `agent-${UNKNOWN_UUID}`, messages: [said('b')] },
    ]);
    expect([status, body.code, body.errors[0].path]).toEqual([404, 'not_found', '/items/1/agent_id']);
    const one = await append(`agent-${UNKNOWN_UUID}`, [said('b')]);
    expect([one.status, one.body.errors[0].path]).toEqual([404, 'agent_id']);
    expect(await countRows(api)).toEqual(before);
  });

  test('an otid with other content names the field and the otid', async () => {
    const id = await createAgent(api);
    await append(id, [said('a', { otid: 'o-1' })]);
    const before = await countRows(api);
    const { status, body } = await append(id, [said('new'), said('b', { otid: 'o-1' })]);
    expect([status, body.code, body.errors[0].path]).toEqual([409, 'conflict', '/messages/1/content']);
    expect(body.detail).toContain('"o-1"');
    expect(await countRows(api)).toEqual(before);
  });

  test.each([
    ['a tool role', [said('a', { role: 'tool' })], '/messages/0/role'],
    ['no text', [said('  ')], '/messages/0/content'],
    ['no message', [], '/messages'],
    ['a time without a zone', [said('a', { said_at: '2026-11-30T09:12:00' })], '/messages/0/said_at'],
    ['an empty otid', [said('a', { otid: '' })], '/messages/0/otid'],
    ['an unknown field', [said('a', { at: 1 })], '/messages/0/at'],
    [
      'an image',
      [said([{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }])],
      '/messages/0/content',
    ],
  ])('%s', async (_, messages, path) => {
    const id = await createAgent(api);
    const { status, body } = await append(id, messages);
    expect([status, body.code]).toEqual([422, 'validation_failed']);
    expect(body.errors.map((error: { path: string }) => error.path)).toContainEqual(
      expect.stringContaining(path),
    );
    expect(await listOfAgent(id)).toEqual([]);
  });

  test('the 100,001st message, of one agent or of several', async () => {
    const id = await createAgent(api);
    const many = (count: number) => Array.from({ length: count }, () => said('a'));
    const one = await append(id, many(100_001));
    expect([one.status, one.body.errors[0].path]).toEqual([422, '/messages']);
    const all = await appendAll([
      { agent_id: id, messages: many(60_000) },
      { agent_id: id, messages: many(40_001) },
    ]);
    expect([all.status, all.body.errors[0].path]).toEqual([422, '/items/1/messages/40000']);
    expect(await listOfAgent(id)).toEqual([]);
  });
});

test('a body of 100,000 messages is stored whole', async () => {
  const id = await createAgent(api);
  const messages = Array.from({ length: 100_000 }, (_, index) => said(`m${index}`, { otid: `${index}` }));
  const { status, body } = await append(id, messages);
  expect([status, body]).toEqual([200, { appended: 100_000, repeated: 0, waiting: 0 }]);
  expect((await append(id, messages)).body).toEqual({ appended: 0, repeated: 100_000, waiting: 0 });
});
