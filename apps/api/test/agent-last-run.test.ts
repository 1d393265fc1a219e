import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

describe("an agent's last run", () => {
  const submit = async (agent_id: string): Promise<string> => {
    const { body } = await api.call('POST', '/v1/batches', {
      requests: [{ agent_id, input: 'x', conversation: 'isolated' }],
    });
    return (await api.call('GET', `/v1/runs?batch_id=${body.id}`)).body[0].id;
  };
  const end = (runId: string, stopReason: string, seconds: number) =>
    api.database.pool.query(
      `update run set state = 'completed', stop_reason = $2, ended_at = started_at + $3::int * interval '1 second'
        where id = $1`,
      [runId.slice(4), stopReason, seconds],
    );
  const lastOf = async (id: string) => {
    const { last_run_completion, last_run_duration_ms, last_stop_reason } = (
      await api.call('GET', `/v1/agents/${id}`)
    ).body;
    return [last_run_completion, last_run_duration_ms, last_stop_reason];
  };

  test('is null until a run has ended, then the newest ended run', async () => {
    const id = await createAgent(api);
    expect(await lastOf(id)).toEqual([null, null, null]);
    const [first, second, third] = [await submit(id), await submit(id), await submit(id)];
    expect(await lastOf(id)).toEqual([null, null, null]);
    await end(second, 'max_tokens', 90);
    const run = (await api.call('GET', `/v1/runs/${second}`)).body;
    expect(run.stop_reason).toBe('max_tokens_exceeded');
    const last = [run.completed_at, 90_000, run.stop_reason];
    expect(await lastOf(id)).toEqual(last);
    await end(first, 'end_turn', 600);
    expect(await lastOf(id)).toEqual(last);
    await end(third, 'end_turn', 1);
    expect((await lastOf(id)).slice(1)).toEqual([1_000, 'end_turn']);
  });

  test('has no duration if it was cancelled before its start', async () => {
    const id = await createAgent(api);
    const run = await submit(id);
    await api.database.pool.query(
      `update run set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(), started_at = null,
                      first_seq = null, last_seq = null where id = $1`,
      [run.slice(4)],
    );
    expect(await lastOf(id)).toEqual([expect.stringMatching(/^20/), null, 'cancelled']);
  });

  test('is part of lists and of the answer to a change', async () => {
    const named = `Runner ${process.pid}`;
    const [one, two] = [await createAgent(api, { name: named }), await createAgent(api, { name: named })];
    const block = (await api.call('GET', `/v1/agents/${one}`)).body.blocks[0];
    await end(await submit(one), 'end_turn', 3);
    const told = { last_run_duration_ms: 3_000, last_stop_reason: 'end_turn' };
    const untold = { id: two, last_run_completion: null, last_run_duration_ms: null, last_stop_reason: null };
    expect((await api.call('GET', `/v1/agents/?name=${named}`)).body).toMatchObject([
      untold,
      { ...told, id: one },
    ]);
    expect((await api.call('GET', `/v1/blocks/${block.id}/agents`)).body).toMatchObject([told]);
    const patch = { description: 'ran', last_stop_reason: 'error', last_run_duration_ms: 1 };
    expect((await api.call('PATCH', `/v1/agents/${one}`, patch)).body).toMatchObject(told);
  });
});
