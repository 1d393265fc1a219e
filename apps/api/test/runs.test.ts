import { stepUuid, toWireId } from '@nightshift/agent-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAgent, openApi, PROJECT_ID, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

/** Submits a request per text, to an agent each, and returns the runs in request order. */
async function submitRuns(texts: readonly string[]) {
  const requests = [];
  for (const input of texts) requests.push({ agent_id: await createAgent(api), input });
  const batch = (await api.call('POST', '/v1/batches', { requests })).body;
  const runs = (await api.call('GET', `/v1/runs/?batch_id=${batch.id}&order=asc`)).body;
  return { batch, runs, agents: requests.map((request) => request.agent_id) };
}

/** Returns the result of some work, and its longest stretch as a share of this thread's CPU time. */
async function longestStretchOf<Result>(work: () => Promise<Result>) {
  const usedUs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return user + system;
  };
  const before = usedUs();
  let longest = 0;
  let last = before;
  let isOver = false;
  const look = (): void => {
    const now = usedUs();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  const result = await work();
  isOver = true;
  look();
  return { result, stretch: longest / (usedUs() - before) };
}

/** Writes two steps of a run as ingest would: an answer with a call, its result, a last answer. The run has ended. */
async function writeSteps(run: { id: string; conversation_id: string }): Promise<void> {
  const run_id = run.id.slice(4);
  const conversation_id = run.conversation_id.slice('conversation-'.length);
  const { db, pool } = api.database;
  const provider = (n: number) => `01890000-0000-7000-8000-00000000${run_id.slice(0, 3)}${n}`;
  for (const number of [1, 2]) {
    await db
      .insertInto('step')
      .values({
        project_id: PROJECT_ID,
        run_id,
        number,
        attempt: 1,
        provider_batch_id: provider(number),
        ordinal: Number.parseInt(run_id.slice(28, 30), 16) + Math.floor(Math.random() * 1_000_000),
        state: 'done',
        context_from_seq: 0,
        context_to_seq: number,
        block_ids: [],
        block_revisions: [],
        max_tokens: 100,
        stop_reason: number === 1 ? 'tool_use' : 'end_turn',
        model: 'claude-haiku-4-5-20251001',
        input_tokens: 10,
        output_tokens: 3,
        cache_read_tokens: 5,
        cost_nanousd: 1_500_000,
        sealed_at: `2026-01-0${number}T00:00:00Z`,
        applied_at: `2026-01-0${number}T01:00:00Z`,
        ended_at: `2026-01-0${number}T01:00:00Z`,
      })
      .execute();
  }
  const messages = [
    {
      role: 'assistant',
      step_number: 1,
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { place: 'X' } },
      ],
    },
    {
      role: 'user',
      step_number: 1,
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Rain.' }],
    },
    {
      role: 'assistant',
      step_number: 2,
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 's' },
        { type: 'text', text: 'It rains.' },
      ],
    },
  ] as const;
  for (const [index, message] of messages.entries()) {
    await db
      .insertInto('message')
      .values({
        project_id: PROJECT_ID,
        conversation_id,
        seq: index + 2,
        run_id,
        step_number: message.step_number,
        role: message.role,
        content: JSON.stringify(message.content),
      })
      .execute();
  }
  await db
    .insertInto('tool_call')
    .values({
      project_id: PROJECT_ID,
      run_id,
      step_number: 1,
      call_index: 0,
      tool_use_id: 'toolu_1',
      tool_name: 'weather',
      kind: 'module',
      state: 'succeeded',
      started_at: '2026-01-01T01:00:00Z',
      ended_at: '2026-01-01T01:00:01Z',
    })
    .execute();
  await pool.query(
    `update run set state = 'completed', stop_reason = 'end_turn', step_number = 2, last_seq = 4, ended_at = app_now() where id = $1`,
    [run_id],
  );
}

describe('a run', () => {
  test('has Letta’s fields and its batch', async () => {
    const { batch, runs, agents } = await submitRuns(['a']);
    expect(runs[0]).toEqual({
      id: expect.stringMatching(/^run-/),
      agent_id: agents[0],
      status: 'created',
      stop_reason: null,
      created_at: expect.stringMatching(/Z$/),
      completed_at: null,
      background: true,
      conversation_id: expect.stringMatching(/^conversation-/),
      batch_id: batch.id,
      ordinal: 0,
      custom_id: null,
      state: 'ready',
      ended_reason: null,
      error: null,
      result: null,
      usage: {
        steps: 0,
        tool_calls: 0,
        failed_tool_calls: 0,
        unknown_tool_calls: 0,
        input_tokens: 0,
        output_tokens: 0,
        cache_write_tokens: 0,
        cache_read_tokens: 0,
        cost_usd: '0.00',
      },
      limits: { max_steps: 10, max_cost_usd: null, max_output_tokens: null },
      deadline: null,
      waits_for: null,
      step_number: 1,
      attempt: 1,
      attempts: 0,
      last_error: null,
      next_attempt_at: null,
      started_at: expect.stringMatching(/Z$/),
      metadata: null,
      request_config: null,
      callback_url: null,
      callback_sent_at: null,
      callback_status_code: null,
      callback_error: null,
      base_template_id: null,
      ttft_ns: null,
      total_duration_ns: null,
    });
    expect((await api.call('GET', `/v1/runs/${runs[0].id}`)).body).toEqual(runs[0]);
  });

  test.each([
    ['in_flight', null, null, 'running', null],
    ['requires_action', null, null, 'running', null],
    ['completed', 'end_turn', null, 'completed', 'end_turn'],
    ['completed', 'stop_sequence', null, 'completed', 'end_turn'],
    ['completed', 'tool_rule', null, 'completed', 'tool_rule'],
    ['completed', 'max_steps', null, 'completed', 'max_steps'],
    ['failed', 'max_tokens', '{}', 'failed', 'max_tokens_exceeded'],
    ['failed', 'context_overflow', '{}', 'failed', 'llm_api_error'],
    ['failed', 'loop_detected', '{}', 'failed', 'error'],
    ['failed', 'provider_error', '{}', 'failed', 'llm_api_error'],
    ['cancelled', 'cancelled', null, 'cancelled', 'cancelled'],
    ['expired', 'expired', null, 'failed', 'llm_api_error'],
  ])(
    'in state %s for %s shows Letta’s names and keeps the exact state',
    async (state, reason, error, status, shown) => {
      const { runs } = await submitRuns(['a']);
      await api.database.pool.query(
        `update run set state = $2, stop_reason = $3, error = $4,
         ended_at = case when $3::text is not null then app_now() end where id = $1`,
        [runs[0].id.slice(4), state, reason, error],
      );
      expect((await api.call('GET', `/v1/runs/${runs[0].id}`)).body).toMatchObject({
        status,
        stop_reason: shown,
        ...{ state, ended_reason: reason, error: error === null ? null : { message: '' } },
      });
    },
  );

  test('that took a year is shown like any other, and so is its batch', async () => {
    const { batch, runs } = await submitRuns(['x']);
    const { pool } = api.database;
    const yearNs = 365 * 86_400 * 1e9;
    await pool.query(
      `update run set created_at = '2026-01-01Z', ended_at = '2027-01-01Z', state = 'completed', stop_reason = 'end_turn'
       where id = $1`,
      [runs[0].id.slice(4)],
    );
    await pool.query(
      `update batch set created_at = '2026-01-01Z', completed_at = '2027-01-01Z', state = 'completed' where id = $1`,
      [batch.id.slice(4)],
    );
    for (const path of [`/v1/runs/${runs[0].id}`, `/v1/batches/${batch.id}`]) {
      const { status, body } = await api.call('GET', path);
      expect([status, body.total_duration_ns]).toEqual([200, yearNs]);
    }
  });

  test('that is queued names the run that holds its conversation, wherever it is shown; other runs name none', async () => {
    const agent_id = await createAgent(api);
    const submit = async (...inputs: readonly string[]) =>
      (await api.call('POST', '/v1/batches', { requests: inputs.map((input) => ({ agent_id, input })) }))
        .body;
    const first = await submit('one', 'two');
    const second = await submit('three');
    const list = async (query: string) => (await api.call('GET', `/v1/runs?${query}&order=asc`)).body;
    const [holder, ...waiting] = await list(`agent_id=${agent_id}`);
    expect(holder).toMatchObject({ state: 'ready', waits_for: null });
    expect(waiting).toHaveLength(2);
    for (const run of waiting) {
      expect(run).toMatchObject({ state: 'queued', waits_for: { type: 'run', run_id: holder.id } });
      expect((await api.call('GET', `/v1/runs/${run.id}`)).body).toEqual(run);
    }
    expect((await list('state=queued')).slice(-2)).toEqual(waiting);
    expect(await list(`batch_id=${first.id}`)).toEqual([holder, waiting[0]]);
    expect(await list(`batch_id=${second.id}`)).toEqual([waiting[1]]);
    // The conversation is free for the moment.
    await api.database.pool.query('update conversation set run_id = null where run_id = $1', [
      holder.id.slice(4),
    ]);
    expect((await list(`batch_id=${second.id}`))[0]).toMatchObject({ state: 'queued', waits_for: null });
  });

  test('is 404 if unknown and 422 if malformed', async () => {
    for (const path of ['', '/messages', '/steps', '/usage']) {
      expect((await api.call('GET', `/v1/runs/run-${UNKNOWN_UUID}${path}`)).status).toBe(404);
      expect((await api.call('GET', `/v1/runs/run-1${path}`)).status).toBe(422);
    }
  });
});

describe('listing runs', () => {
  test('cuts a page by the size of messages with awaited calls', async () => {
    const { batch } = await submitRuns(['a', 'b', 'c']);
    const { pool } = api.database;
    await pool.query(
      `update message m set content = json_build_array(json_build_object('type', 'text', 'text', repeat('x', 17000000)))
         from run r where r.batch_id = $1 and m.run_id = r.id`,
      [batch.id.slice(4)],
    );
    const list = () => api.call('GET', `/v1/runs/?batch_id=${batch.id}`);
    expect((await list()).body).toHaveLength(3);
    await pool.query(
      `update run r set state = 'requires_action', last_seq = (select max(seq) from message m where m.run_id = r.id)
        where batch_id = $1`,
      [batch.id.slice(4)],
    );
    const { body, headers } = await list();
    expect(body).toHaveLength(2);
    expect(headers['link']).toContain(`after=${body[1].id}`);
  });

  test('plans awaited calls with pauses for other requests', async () => {
    // About 30 ms for a text of 990 characters.
    const parameters = {
      type: 'object',
      properties: { text: { type: 'string', pattern: '^(?!(?:.?){1000}!)' } },
    };
    const agent_id = await createAgent(api);
    const requests = Array.from({ length: 20 }, () => ({
      agent_id,
      input: 'go',
      conversation: 'isolated',
      client_tools: [{ name: 'check', parameters }],
    }));
    const { body: batch } = await api.call('POST', '/v1/batches', { requests });
    const { pool } = api.database;
    await pool.query(
      `update message m
          set content = json_build_array(json_build_object(
                'type', 'tool_use', 'id', 'toolu_1', 'name', 'check',
                'input', json_build_object('text', rpad(r.ordinal || ' ', 990, 'x'))))
         from run r where r.batch_id = $1 and m.run_id = r.id`,
      [batch.id.slice(4)],
    );
    await pool.query(
      `with r as (update run r set state = 'requires_action', step_number = 1,
                                   last_seq = (select max(seq) from message m where m.run_id = r.id)
                   where batch_id = $1 returning *)
       insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state, awaits)
       select project_id, id, 1, 0, 'toolu_1', 'check', 'client', 'pending', 'answer' from r`,
      [batch.id.slice(4)],
    );
    const { result, stretch } = await longestStretchOf(() =>
      api.call('GET', `/v1/runs/?batch_id=${batch.id}`),
    );
    const tool_calls = [expect.objectContaining({ tool_call_id: 'toolu_1', awaits: 'answer' })];
    expect(result.body.map((run: { waits_for: unknown }) => run.waits_for)).toEqual(
      requests.map(() => ({ type: 'caller', tool_calls })),
    );
    expect(stretch).toBeLessThan(0.25);
  });

  test('filters by agent, batch, status and reason, and pages both ways without loss', async () => {
    const { batch, runs, agents } = await submitRuns(['a', 'b', 'c', 'd', 'e']);
    const ids = runs.map((run: { id: string }) => run.id);
    const list = async (query: string) =>
      (await api.call('GET', `/v1/runs/?${query}`)).body.map((run: { id: string }) => run.id);
    expect(await list(`batch_id=${batch.id}`)).toEqual(ids.toReversed());
    expect(await list(`agent_id=${agents[2]}`)).toEqual([ids[2]]);
    expect(await list(`agent_ids=${agents[2]}&agent_ids=${agents[0]}`)).toEqual([ids[2], ids[0]]);
    expect(await list(`agent_id=${agents[4]}&agent_ids=${agents[0]}`)).toEqual([ids[4], ids[0]]);
    await api.database.pool.query(
      `update run set state = 'failed', stop_reason = 'poison', error = '{}', ended_at = app_now() where id = $1`,
      [ids[1].slice(4)],
    );
    expect(await list(`batch_id=${batch.id}&statuses=failed`)).toEqual([ids[1]]);
    expect(await list(`batch_id=${batch.id}&active=true&ascending=true`)).toEqual([
      ids[0],
      ids[2],
      ids[3],
      ids[4],
    ]);
    expect(await list(`batch_id=${batch.id}&statuses=failed&active=true`)).toEqual([]);
    expect(await list(`batch_id=${batch.id}&stop_reason=error`)).toEqual([ids[1]]);
    expect(await list(`batch_id=${batch.id}&stop_reason=poison`)).toEqual([ids[1]]);
    await api.database.pool.query(
      `update run set state = 'failed', stop_reason = case id when $1 then 'max_tokens' else 'context_overflow' end,
         error = '{}', ended_at = app_now() where id in ($1, $2)`,
      [ids[2].slice(4), ids[3].slice(4)],
    );
    for (const reason of ['max_tokens', 'max_tokens_exceeded'])
      expect(await list(`batch_id=${batch.id}&stop_reason=${reason}`)).toEqual([ids[2]]);
    for (const reason of ['context_overflow', 'context_window_overflow_in_system_prompt', 'llm_api_error'])
      expect(await list(`batch_id=${batch.id}&stop_reason=${reason}`)).toEqual([ids[3]]);
    expect(await list(`batch_id=${batch.id}&stop_reason=error`)).toEqual([ids[1]]);
    expect(await list('background=false')).toEqual([]);
    for (const scope of [`batch_id=${batch.id}&`, `agent_ids=${agents.join('&agent_ids=')}&`]) {
      expect(await list(`${scope}limit=2&order=asc&after=${ids[1]}`)).toEqual([ids[2], ids[3]]);
      expect(await list(`${scope}limit=2&order=asc&before=${ids[3]}`)).toEqual([ids[1], ids[2]]);
      expect(await list(`${scope}limit=2&after=${ids[3]}`)).toEqual([ids[2], ids[1]]);
      expect(await list(`${scope}limit=2&before=${ids[1]}`)).toEqual([ids[3], ids[2]]);
      expect(await list(`${scope}order=asc&after=${ids[4]}`)).toEqual([]);
    }
  });
});

describe('the content of a run', () => {
  let run: { id: string; conversation_id: string; agent_id: string };
  let batch: { id: string };
  beforeEach(async () => {
    const submitted = await submitRuns(['What is it like?']);
    run = submitted.runs[0];
    batch = submitted.batch;
    await writeSteps(run);
  });

  test('is listed as messages of Letta’s union, oldest first', async () => {
    const { body } = await api.call('GET', `/v1/runs/${run.id}/messages`);
    expect(body.map((message: Record<string, unknown>) => message.message_type)).toEqual([
      'user_message',
      'assistant_message',
      'tool_call_message',
      'tool_return_message',
      'reasoning_message',
      'assistant_message',
    ]);
    expect(body[2]).toMatchObject({
      run_id: run.id,
      step_id: toWireId('step', stepUuid({ run_id: run.id.slice(4), number: 1, attempt: 1 })),
      tool_call: { name: 'weather', arguments: '{"place":"X"}', tool_call_id: 'toolu_1' },
    });
    expect(body[3]).toMatchObject({ name: 'weather', tool_return: 'Rain.', status: 'success' });
    const page = await api.call('GET', `/v1/runs/${run.id}/messages?limit=1&after=${body[0].id}`);
    expect(page.body.map((message: { message_type: string }) => message.message_type)).toEqual([
      'assistant_message',
      'tool_call_message',
    ]);
    const rest = await api.call('GET', `/v1/runs/${run.id}/messages?after=${page.body.at(-1).id}`);
    expect(rest.body).toEqual(body.slice(3));
    const last = await api.call('GET', `/v1/runs/${run.id}/messages?order=desc&limit=1`);
    expect(last.body).toEqual(body.slice(4).reverse());
    expect((await api.call('GET', `/v1/runs/${run.id}/messages?after=${body[5].id}`)).body).toEqual([]);
    expect((await api.call('GET', `/v1/runs/${run.id}/messages?limit=1&before=${body[2].id}`)).body).toEqual([
      body[0],
    ]);
  });

  test('shows tool calls as agent messages if the caller names the tool', async () => {
    const typesOf = async (query: string) =>
      (await api.call('GET', `/v1/agents/${run.agent_id}/messages?${query}`)).body.map(
        (message: { message_type: string; content?: string }) => [message.message_type, message.content],
      );
    const named = 'assistant_message_tool_name=weather&assistant_message_tool_kwarg=place';
    const spoken = await typesOf(named);
    expect(spoken).toContainEqual(['assistant_message', 'X']);
    expect(spoken.map(([type]: [string]) => type)).not.toContain('tool_return_message');
    for (const other of ['', 'assistant_message_tool_name=weather', `${named}&use_assistant_message=false`]) {
      expect(await typesOf(other)).not.toContainEqual(['assistant_message', 'X']);
    }
  });

  test('is listed to its end across a row that shows nothing', async () => {
    await api.database.pool.query(`update tool_call set tool_name = 'send_message' where run_id = $1`, [
      run.id.slice(4),
    ]);
    for (const path of [`/v1/runs/${run.id}/messages`, `/v1/agents/${run.agent_id}/messages`]) {
      const all = (await api.call('GET', `${path}?order=asc`)).body;
      const { body } = await api.call('GET', `${path}?order=asc&limit=1&after=${all[1].id}`);
      expect(body).toEqual(all.slice(-2));
    }
  });

  test('is listed as internal messages of its batch, with tool names even on a separate page', async () => {
    const path = `/v1/messages/batches/${batch.id}/messages`;
    const { messages } = (await api.call('GET', `${path}?order=asc`)).body;
    expect(messages.map((message: Record<string, unknown>) => message.role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
    ]);
    expect(messages[1]).toMatchObject({
      model: 'claude-haiku-4-5-20251001',
      run_id: run.id,
      tool_calls: [
        { id: 'toolu_1', type: 'function', function: { name: 'weather', arguments: '{"place":"X"}' } },
      ],
    });
    const one = (await api.call('GET', `${path}?order=asc&limit=1&after=${messages[1].id}`)).body.messages;
    expect(one).toEqual([messages[2]]);
    expect(one[0]).toMatchObject({ role: 'tool', name: 'weather', tool_call_id: 'toolu_1' });
    expect(new Set(messages.map((message: { batch_item_id: string }) => message.batch_item_id)).size).toBe(1);
  });

  test('shows in its steps which parts the provider enforces, but for a summary', async () => {
    const enforce = (strict: object | null) =>
      api.database.pool.query(
        'update definition set strict = $2 where id = (select definition_id from run where id = $1)',
        [run.id.slice(4), strict],
      );
    const summarise = (is_summary: boolean) =>
      api.database.pool.query('update step set is_summary = $2 where run_id = $1 and number = 1', [
        run.id.slice(4),
        is_summary,
      ]);
    await enforce({ tools: ['weather'], result_format: true });
    await summarise(true);
    const steps = (await api.call('GET', `/v1/runs/${run.id}/steps`)).body;
    await enforce(null);
    await summarise(false);
    expect(
      steps.map((step: Record<string, unknown>) => [
        step['number'],
        step['strict_tools'],
        step['strict_result'],
      ]),
    ).toEqual([
      [2, ['weather'], true],
      [1, [], false],
    ]);
  });

  test('is listed as steps, per run and across runs', async () => {
    const steps = (await api.call('GET', `/v1/runs/${run.id}/steps`)).body;
    expect(
      steps.map((step: Record<string, unknown>) => [step.number, step.status, step.stop_reason]),
    ).toEqual([
      [2, 'success', 'end_turn'],
      [1, 'success', null],
    ]);
    expect(steps[0]).toMatchObject({
      run_id: run.id,
      agent_id: run.agent_id,
      model: 'claude-haiku-4-5-20251001',
      provider_name: 'anthropic',
      prompt_tokens: 15,
      completion_tokens: 3,
      total_tokens: 18,
      cost_usd: '0.0015',
      strict_tools: [],
      strict_result: false,
    });
    expect((await api.call('GET', `/v1/steps/${steps[1].id}`)).body).toEqual(steps[1]);
    expect((await api.call('GET', `/v1/steps/step-${UNKNOWN_UUID}`)).status).toBe(404);
    const list = async (query: string) =>
      (await api.call('GET', `/v1/steps/?agent_id=${run.agent_id}&${query}`)).body;
    expect(await list('')).toEqual(steps);
    expect(await list('limit=1')).toEqual([steps[0]]);
    expect(await list(`limit=1&after=${steps[0].id}`)).toEqual([steps[1]]);
    expect(await list(`limit=1&before=${steps[1].id}`)).toEqual([steps[0]]);
    expect(await list(`order=asc&after=${steps[1].id}`)).toEqual([steps[0]]);
    expect(await list(`after=${steps[1].id}`)).toEqual([]);
    expect(await list('model=claude-haiku-4-5-20251001')).toEqual(steps);
    expect(await list('model=anthropic/claude-haiku-4-5')).toEqual(steps);
    expect(await list('model=other')).toEqual([]);
    expect(await list('start_date=2026-01-02T00:00:00Z')).toEqual([steps[0]]);
    expect(await list('end_date=2026-01-01')).toEqual([steps[1]]);
  });

  test.each([
    ['done', 'refusal', 'success', 'error'],
    ['done', 'max_tokens', 'success', 'max_tokens_exceeded'],
    ['errored', 'max_tokens', 'failed', 'max_tokens_exceeded'],
    ['errored', null, 'failed', 'llm_api_error'],
  ])('as step in state %s for %s has the names of Letta’s clients', async (state, reason, status, shown) => {
    const set = (values: readonly unknown[]) =>
      api.database.pool.query(
        `update step set state = $2, stop_reason = $3, applied_at = case $2 when 'done' then ended_at end,
           error = case $2 when 'errored' then '{}'::json end
          where run_id = $1 and number = 2`,
        [run.id.slice(4), ...values],
      );
    await set([state, reason]);
    const [step] = (await api.call('GET', `/v1/runs/${run.id}/steps`)).body;
    expect([step.state, step.status, step.stop_reason]).toEqual([state, status, shown]);
    await set(['done', 'end_turn']);
  });

  test('is found by whether its tool calls failed, within its batch', async () => {
    const list = async (failed: boolean) => {
      const { body } = await api.call('GET', `/v1/runs?batch_id=${batch.id}&tool_calls_failed=${failed}`);
      return body.map(({ id }: { id: string }) => id);
    };
    expect([await list(true), await list(false)]).toEqual([[], [run.id]]);
    for (const state of ['failed', 'unknown']) {
      await api.database.pool.query('update tool_call set state = $2 where run_id = $1', [
        run.id.slice(4),
        state,
      ]);
      expect([await list(true), await list(false)]).toEqual([[run.id], []]);
    }
    const alone = await api.call('GET', '/v1/runs?tool_calls_failed=true');
    expect([alone.status, alone.body.errors[0].path]).toEqual([422, '?tool_calls_failed']);
  });

  test('shows its usage wherever it is read', async () => {
    const used = {
      steps: 2,
      tool_calls: 1,
      failed_tool_calls: 0,
      unknown_tool_calls: 0,
      input_tokens: 20,
      output_tokens: 6,
      cache_write_tokens: 0,
      cache_read_tokens: 10,
      cost_usd: '0.003',
    };
    const read = (await api.call('GET', `/v1/runs/${run.id}`)).body;
    expect(read.usage).toEqual(used);
    expect((await api.call('GET', `/v1/runs?batch_id=${read.batch_id}`)).body).toEqual([read]);
    const setCall = (state: string) =>
      api.database.pool.query('update tool_call set state = $2 where run_id = $1', [run.id.slice(4), state]);
    await setCall('failed');
    expect((await api.call('GET', `/v1/runs/${run.id}`)).body.usage).toEqual({
      ...used,
      failed_tool_calls: 1,
    });
    await setCall('unknown');
    expect((await api.call('GET', `/v1/runs/${run.id}`)).body.usage).toEqual({
      ...used,
      failed_tool_calls: 1,
      unknown_tool_calls: 1,
    });
    await setCall('succeeded');
  });

  test('has a usage of its own', async () => {
    expect((await api.call('GET', `/v1/runs/${run.id}/usage`)).body).toEqual({
      prompt_tokens: 30,
      completion_tokens: 6,
      total_tokens: 36,
      prompt_tokens_details: {
        cached_tokens: 10,
        cache_read_tokens: 10,
        cache_creation_tokens: 0,
        cache_write_tokens: 0,
      },
      completion_tokens_details: null,
      step_count: 2,
      cost_usd: '0.003',
    });
  });
});
