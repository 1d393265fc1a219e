import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const model = 'anthropic/claude-haiku-4-5';
const settingsOf = async (id: string) =>
  (await api.call('GET', `/v1/agents/${id}`)).body.compaction_settings as unknown;

describe('compaction settings', () => {
  test.each<[string, object, object]>([
    ['none given', {}, { mode: 'sliding_window', model, sliding_window_percentage: 0.3 }],
    [
      'a sliding window',
      { mode: 'sliding_window', sliding_window_percentage: 0.5, model },
      { mode: 'sliding_window', model, sliding_window_percentage: 0.5 },
    ],
    [
      'a static buffer',
      { mode: 'static_message_buffer' },
      { mode: 'static_message_buffer', model, message_buffer_limit: 10, message_buffer_min: 4 },
    ],
    [
      'a static buffer with its own size',
      { mode: 'static_message_buffer', message_buffer_limit: 3 },
      { mode: 'static_message_buffer', model, message_buffer_limit: 3, message_buffer_min: 2 },
    ],
    ['no compaction', { mode: 'none' }, { mode: 'none', model }],
  ])('%s: the effective settings are answered', async (_name, given, held) => {
    const id = await createAgent(api, { compaction_settings: given });
    expect(await settingsOf(id)).toEqual(held);
    // A whole answer may be sent back.
    const again = await api.call('PATCH', `/v1/agents/${id}`, { compaction_settings: held });
    expect([again.status, again.body.compaction_settings]).toEqual([200, held]);
  });

  test('are changed by an update that names them, and kept otherwise', async () => {
    const id = await createAgent(api, { compaction_settings: { mode: 'none' } });
    await api.call('PATCH', `/v1/agents/${id}`, { name: 'other', compaction_settings: null });
    expect(await settingsOf(id)).toEqual({ mode: 'none', model });
    await api.call('PATCH', `/v1/agents/${id}`, { compaction_settings: { mode: 'sliding_window' } });
    expect(await settingsOf(id)).toEqual({ mode: 'sliding_window', model, sliding_window_percentage: 0.3 });
  });

  test("of an update apply to the agent's present mode and keep the other settings", async () => {
    const given = { mode: 'static_message_buffer', message_buffer_limit: 20, message_buffer_min: 7 };
    const path = `/v1/agents/${await createAgent(api, { compaction_settings: given })}`;
    const after = async (compaction_settings: object): Promise<unknown> =>
      (await api.call('PATCH', path, { compaction_settings })).body.compaction_settings;
    expect(await after({ message_buffer_limit: 30 })).toEqual({ ...given, model, message_buffer_limit: 30 });
    expect(await after({ message_buffer_min: 9 })).toMatchObject({
      message_buffer_limit: 30,
      message_buffer_min: 9,
    });
    for (const [field, value] of [
      ['message_buffer_limit', 5],
      ['message_buffer_min', 30],
    ] as const) {
      const refused = await api.call('PATCH', path, { compaction_settings: { [field]: value } });
      expect([refused.status, refused.body.errors[0]?.path]).toEqual([422, `/compaction_settings/${field}`]);
    }
    const read = await settingsOf(path.slice('/v1/agents/'.length));
    expect(await after({ ...(read as object), mode: 'none' })).toEqual({ mode: 'none', model });
    expect(await after({ mode: 'static_message_buffer' })).toMatchObject({ message_buffer_min: 4 });
    expect(await after({ sliding_window_percentage: 0.5 })).toEqual({
      mode: 'sliding_window',
      model,
      sliding_window_percentage: 0.5,
    });
    expect(await after({ mode: 'none', sliding_window_percentage: 0.5 })).toEqual({ mode: 'none', model });
  });

  test.each([
    ['default minimum', {}, 4, 3],
    ['minimum that followed from the limit', { message_buffer_limit: 3 }, 2, 1],
  ])('are lowered by a limit below a %s, which the caller did not give', async (_name, given, limit, min) => {
    const compaction_settings = { mode: 'static_message_buffer', ...given };
    const path = `/v1/agents/${await createAgent(api, { compaction_settings })}`;
    const { body } = await api.call('PATCH', path, { compaction_settings: { message_buffer_limit: limit } });
    expect(body.compaction_settings).toMatchObject({ message_buffer_limit: limit, message_buffer_min: min });
  });

  test('with another present model follow it; a third model is refused', async () => {
    const id = await createAgent(api, { compaction_settings: { mode: 'none' } });
    const compaction_settings = await settingsOf(id);
    const other = 'anthropic/claude-opus-4-5';
    const path = `/v1/agents/${id}`;
    const changed = await api.call('PATCH', path, { model: other, compaction_settings });
    expect([changed.status, changed.body.compaction_settings]).toEqual([200, { mode: 'none', model: other }]);
    const third = { mode: 'none', model: 'anthropic/claude-sonnet-4-5' };
    const refused = await api.call('PATCH', path, { model, compaction_settings: third });
    expect([refused.status, refused.body.errors[0]?.path]).toEqual([422, '/compaction_settings/model']);
    const late = await api.call('PATCH', path, { compaction_settings });
    expect([late.status, late.body.errors[0]?.path]).toEqual([422, '/compaction_settings/model']);
  });

  test.each<[string, object, string]>([
    ['an unknown mode', { mode: 'all' }, 'mode'],
    ['an invalid share', { sliding_window_percentage: 1 }, 'sliding_window_percentage'],
    ['a buffer of one', { mode: 'static_message_buffer', message_buffer_limit: 1 }, 'message_buffer_limit'],
    [
      'a buffer that keeps everything',
      { mode: 'static_message_buffer', message_buffer_limit: 5, message_buffer_min: 5 },
      'message_buffer_min',
    ],
    ['the size of a buffer without a buffer', { message_buffer_limit: 20 }, 'message_buffer_limit'],
    [
      'a buffer minimum in another mode',
      { mode: 'none', message_buffer_limit: null, message_buffer_min: 2 },
      'message_buffer_min',
    ],
    ['another model', { model: 'anthropic/claude-opus-5' }, 'model'],
    ['a setting of Letta that is not supported', { prompt: 'Be brief.' }, 'prompt'],
  ])('with %s are refused by name', async (_name, compaction_settings, field) => {
    const { status, body } = await api.call('POST', '/v1/agents', { model, compaction_settings });
    expect([status, body.errors[0]?.path]).toEqual([422, `/compaction_settings/${field}`]);
  });

  test("are part of a batch's definition", async () => {
    const id = await createAgent(api, {
      context_window_limit: 50_000,
      compaction_settings: { mode: 'none' },
    });
    const input = { requests: [{ agent_id: id, input: 'Go.' }] };
    await api.call('POST', '/v1/batches', input);
    await api.call('PATCH', `/v1/agents/${id}`, {
      context_window_limit: 60_000,
      compaction_settings: { mode: 'static_message_buffer' },
    });
    await api.call('POST', '/v1/batches', input);
    const { rows } = await api.database.pool.query(
      `select d.context_window_limit, d.compaction from run r join definition d on d.id = r.definition_id
        where r.agent_id = $1 order by r.created_at`,
      [id.slice('agent-'.length)],
    );
    expect(rows).toEqual([
      { context_window_limit: 50_000, compaction: { mode: 'none' } },
      { context_window_limit: 60_000, compaction: { mode: 'static_buffer', limit: 10, keep: 4 } },
    ]);
  });
});
