import { newRunId } from '@nightshift/db';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let id = '';
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  id = await createAgent(api);
});

const list = async (agentId = id) => api.call('GET', `/v1/agents/${agentId}/cursors`);
const rewind = (body?: object, name = 'nightly', agentId = id) =>
  api.call('POST', `/v1/agents/${agentId}/cursors/${name}/rewind`, body);

/** Appends messages, said a day after the other from the first of November on. */
const say = (count: number) =>
  api.database.pool.query(
    `insert into message (project_id, conversation_id, seq, role, content, said_at)
     select a.project_id, a.conversation_id, n, 'user', '[{"type":"text","text":"hello"}]', '2026-11-01T10:00:00Z'::timestamptz + (n - 1) * interval '1 day'
       from agent a, generate_series(1, $2::int) n where a.id = $1`,
    [id.slice(6), count],
  );
const messageIds = async () =>
  (await api.call('GET', `/v1/agents/${id}/messages?order=asc`)).body.map(
    (message: { readonly id: string }) => message.id,
  ) as string[];

/** Gives an isolated run the messages up to `toSeq`. */
async function submit(toSeq: number): Promise<{ readonly job_id: string; readonly run_id: string }> {
  const { body } = await api.call('POST', '/v1/batches', {
    requests: [{ agent_id: id, input: 'rewrite', conversation: 'isolated' }],
  });
  const { rows } = await api.database.pool.query<{ id: string }>('select id from run where batch_id = $1', [
    body.id.slice(4),
  ]);
  const run_id = rows[0]?.id ?? newRunId();
  await api.database.pool.query(
    `insert into cursor_span (run_id, agent_id, name, project_id, batch_id, from_seq, to_seq, top_seq)
     values ($1, $2, 'nightly', $3, $4, 0, $5, $5)`,
    [run_id, id.slice(6), PROJECT_ID, body.id.slice(4), toSeq],
  );
  return { job_id: body.id, run_id: `run-${run_id}` };
}
const endRun = () =>
  api.database.pool.query(
    `update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now() where agent_id = $1`,
    [id.slice(6)],
  );

test('an agent without runs under a cursor has none', async () => {
  expect(await list()).toMatchObject({ status: 200, body: [] });
});

test('a cursor shows its position, what is new and its last run', async () => {
  await say(3);
  const ids = await messageIds();
  const { job_id, run_id } = await submit(2);
  const place = {
    name: 'nightly',
    last_run_id: run_id,
    last_job_id: job_id,
    rewound_at: null,
    has_more: false,
  };
  expect((await list()).body).toEqual([
    {
      ...place,
      position: 0,
      last_message_id: null,
      last_message_date: null,
      new_messages: 3,
      skip_reason: 'under_way',
    },
  ]);
  await endRun();
  expect((await list()).body).toEqual([
    {
      ...place,
      position: 2,
      last_message_id: ids[1],
      last_message_date: '2026-11-02T10:00:00.000Z',
      new_messages: 1,
      skip_reason: null,
    },
  ]);
});

test('a cursor is moved to the beginning, to a message and to a time', async () => {
  await say(3);
  await submit(3);
  await endRun();
  const ids = await messageIds();
  for (const [body, position, new_messages] of [
    [undefined, 0, 3],
    [{ to_message_id: ids[1] }, 2, 1],
    [{}, 0, 3],
    [{ before: '2026-11-02T10:00:00Z' }, 1, 2],
    [{ before: '2026-11-02T10:00:01Z', to_message_id: null }, 2, 1],
    [{ before: '2026-12-01T00:00:00+01:00' }, 3, 0],
  ] as const) {
    const { status, body: moved } = await rewind(body);
    expect([status, moved.position, moved.new_messages], JSON.stringify(body)).toEqual([
      200,
      position,
      new_messages,
    ]);
    expect(moved.rewound_at).toEqual(expect.any(String));
    expect((await list()).body).toEqual([moved]);
  }
});

test('a cursor that no run has used begins where it is moved', async () => {
  await say(2);
  expect(await rewind({ before: '2027-01-01T00:00:00Z' }, 'weekly')).toMatchObject({
    status: 200,
    body: { name: 'weekly', position: 2, skip_reason: 'nothing_new', last_run_id: null, last_job_id: null },
  });
});

test('a move is refused while a run under the cursor is open', async () => {
  await say(1);
  await submit(1);
  const { status, body } = await rewind();
  expect([status, body.code]).toEqual([409, 'conflict']);
  expect((await list()).body).toMatchObject([{ rewound_at: null }]);
});

test('bad moves name their field and change nothing', async () => {
  await say(1);
  const other = await createAgent(api);
  const foreign = (await messageIds())[0]!;
  const beyond = foreign.replace(/080$/, '100');
  const both = { to_message_id: foreign, before: '2026-11-02T10:00:00Z' };
  const cases = [
    [await rewind(both), 422, '/before'],
    [await rewind({ to_message_id: 'message-1' }), 422, '/to_message_id'],
    [await rewind({ before: 'yesterday' }), 422, '/before'],
    [await rewind({ from: 1 }), 422, '/from'],
    [await rewind({ to_message_id: foreign }, 'nightly', other), 404, '/to_message_id'],
    [await rewind({ to_message_id: beyond }), 404, '/to_message_id'],
  ] as const;
  for (const [{ status, body }, expected, path] of cases)
    expect([status, body.errors?.[0]?.path], JSON.stringify(body)).toEqual([expected, path]);
  expect((await rewind({}, 'n'.repeat(65))).status).toBe(422);
  expect((await rewind({}, 'a.b')).status).toBe(422);
  expect((await rewind({}, 'nightly', `agent-${UNKNOWN_UUID}`)).status).toBe(404);
  expect((await list(`agent-${UNKNOWN_UUID}`)).status).toBe(404);
  expect((await list()).body).toEqual([]);
});

test('a deleted agent has no cursors', async () => {
  await say(1);
  await rewind();
  await api.call('DELETE', `/v1/agents/${id}`);
  expect((await list()).status).toBe(404);
});
