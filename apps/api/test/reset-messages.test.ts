import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const reset = (id: string, body?: object) => api.call('PATCH', `/v1/agents/${id}/reset-messages`, body);
const submit = (id: string) => api.call('POST', '/v1/batches', { requests: [{ agent_id: id, input: 'x' }] });

/** Releases the conversation as the worker does at the end of a run. */
const release = (id: string) =>
  api.database.pool.query(
    `with ended as (update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now() where agent_id = $1)
     update conversation set run_id = null from agent a where a.id = $1 and conversation.id = a.conversation_id`,
    [id.slice(6)],
  );

async function contextFrom(id: string): Promise<number> {
  const { rows } = await api.database.pool.query<{ seq: number }>(
    `select c.context_from_seq as seq from conversation c join agent a on a.conversation_id = c.id where a.id = $1`,
    [id.slice(6)],
  );
  return rows[0]!.seq;
}

test("resetting an agent's conversation", async () => {
  const id = await createAgent(api);
  expect((await reset(id)).body).toBeNull();
  expect(await contextFrom(id)).toBe(1);
  await submit(id);
  await release(id);
  expect((await api.call('GET', `/v1/agents/${id}`)).body.message_ids).toHaveLength(1);
  const answer = await reset(id, { add_default_initial_messages: true });
  expect([answer.status, answer.body]).toEqual([200, null]);
  expect(await contextFrom(id)).toBe(2);
  expect((await api.call('GET', `/v1/agents/${id}`)).body.message_ids).toEqual([]);
  await submit(id);
  expect((await api.call('GET', `/v1/agents/${id}`)).body.message_ids).toHaveLength(1);
});

test('hides its earlier messages from the agent but not from runs and batches', async () => {
  const id = await createAgent(api);
  const said = async (query = '') =>
    (await api.call('GET', `/v1/agents/${id}/messages${query}`)).body.map(
      (message: { readonly id: string }) => message.id,
    );
  const first = (await submit(id)).body.id;
  await release(id);
  const [before] = await said();
  await reset(id);
  for (const query of [
    '',
    '?order=asc',
    `?before=${before}`,
    `?after=${before}`,
    `?after=${before}&order=asc`,
  ])
    expect(await said(query)).toEqual([]);
  await submit(id);
  await release(id);
  await submit(id);
  const since = await said();
  expect(since).toHaveLength(2);
  expect(since).not.toContain(before);
  expect(await said('?order=asc&limit=1')).toEqual([since[0]]);
  expect(await said(`?after=${before}&order=asc&limit=1`)).toEqual([since[0]]);
  expect(await said(`?before=${since[0]}`)).toEqual([]);
  const { link } = (await api.call('GET', `/v1/agents/${id}/messages?limit=1`)).headers;
  expect(link).toContain(`before=${since[1]}`);

  const ofBatch = (await api.call('GET', `/v1/batches/${first}/messages`)).body.messages;
  expect(ofBatch).toMatchObject([{ id: before }]);
  const ofRun = (await api.call('GET', `/v1/runs/${ofBatch[0].run_id}/messages`)).body;
  expect(ofRun).toMatchObject([{ id: before }]);
});

test("accepts the query parameter of Letta's older client", async () => {
  const id = await createAgent(api);
  for (const query of ['?add_default_initial_messages=true', '?add_default_initial_messages=']) {
    const answer = await api.call('PATCH', `/v1/agents/${id}/reset-messages${query}`);
    expect([answer.status, answer.body]).toEqual([200, null]);
  }
  expect((await api.call('PATCH', `/v1/agents/${id}/reset-messages?force=true`)).status).toBe(422);
});

test('is a conflict during a run and changes nothing', async () => {
  const id = await createAgent(api);
  await submit(id);
  const before = await contextFrom(id);
  const { status, body } = await reset(id, {});
  expect([status, body.code]).toEqual([409, 'conflict']);
  expect(body.detail).toContain('run-');
  expect(await contextFrom(id)).toBe(before);
});

test('answers 404 for an unknown agent and names an unknown field', async () => {
  expect((await reset(`agent-${UNKNOWN_UUID}`)).status).toBe(404);
  const id = await createAgent(api);
  const { status, body } = await reset(id, { add_initial: true });
  expect([status, body.errors[0].path]).toEqual([422, '/add_initial']);
});
