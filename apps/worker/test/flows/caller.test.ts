import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { ToolDefinition } from '@nightshift/agent-core';
import {
  answering,
  openHouse,
  recording,
  script,
  type House,
  type SubmittedBatch,
  type SubmittedRun,
} from './house.ts';
import { openHouseApi, type ApiAnswer, type HouseApi } from './house-api.ts';

let house: House;
let server: HouseApi;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['pay', 'ring', 'look'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { what: { type: 'string' } } },
      side_effects: name === 'look' ? ('none' as const) : ('once' as const),
      return_char_limit: 100,
      timeout_ms: 1_000,
    })),
  });
  server = await openHouseApi(house.database.db);
});
afterEach(async () => {
  await server.close();
  await house.close();
});

const ASK: ToolDefinition = {
  name: 'ask_user',
  kind: 'client',
  description: 'Asks the user.',
  input_schema: { type: 'object', properties: { question: { type: 'string' } } },
  side_effects: 'none',
  return_char_limit: 20,
  timeout_ms: 1_000,
  requires_approval: false,
};
const APPROVAL = [{ type: 'requires_approval', tool_name: 'pay' }];

const api: HouseApi['call'] = (...request) => server.call(...request);
const answer = (batch: SubmittedBatch, ...approvals: object[]): Promise<ApiAnswer> =>
  api('POST', `/v1/runs/run-${batch.run_ids[0] ?? ''}/tool-results`, { approvals });
const runOf = (batch: SubmittedBatch): Promise<ApiAnswer> =>
  api('GET', `/v1/runs/run-${batch.run_ids[0] ?? ''}`);

/** Submits one run and drives the house until it waits for its caller; returns the ids of the waiting calls. */
async function untilAsked(
  run: SubmittedRun,
  worker: Parameters<House['drive']>[0],
  rest: Parameters<House['submit']>[1] = {},
  policy = 'merge',
): Promise<{ batch: SubmittedBatch; ids: string[] }> {
  const batch = await house.submit([run], rest);
  await house.rows('update block set conflict_policy = $1', [policy]);
  await expect(house.drive(worker, { rounds: 12 })).rejects.toThrow('have not ended');
  const { body } = await runOf(batch);
  expect(body.state).toBe('requires_action');
  return {
    batch,
    ids: (body.waits_for.tool_calls as { tool_call_id: string }[]).map((call) => call.tool_call_id),
  };
}

/** Expects a clean audit and no refused request. */
async function audited(): Promise<void> {
  expect(await house.rows(`select error from step where state = 'errored'`)).toEqual([]);
  expect(await auditInvariants(house.database.db)).toEqual([]);
}

describe('a call that needs an approval', () => {
  test('waits for its approval with its final arguments, and then is made once', async () => {
    const tools = answering(() => 'paid');
    const { provider, sent } = recording(house);
    const worker = house.worker({ tools, provider });
    const { batch, ids } = await untilAsked(
      {
        input: script([{ tool: 'look' }, { tool: 'pay', args: { what: 'mine' } }], { text: 'Paid.' }),
        tools: ['pay', 'look'],
        tool_rules: [
          ...APPROVAL,
          { type: 'run_first', tool_name: 'pay', args: { what: 'theirs' } },
          { type: 'run_first', tool_name: 'look' },
        ],
      },
      worker,
    );
    expect((await runOf(batch)).body).toMatchObject({
      status: 'running',
      waits_for: {
        type: 'caller',
        tool_calls: [{ tool_name: 'pay', arguments: { what: 'theirs' }, awaits: 'approval' }],
      },
    });
    expect((await api('GET', `/v1/batches/job-${batch.id}`)).body.counts).toMatchObject({
      requires_action: 1,
      in_progress: 0,
    });
    // Calls of a whole page are read with it.
    for (const filter of ['state=requires_action', `batch_id=job-${batch.id}`, 'active=true'])
      expect((await api('GET', `/v1/runs?${filter}`)).body).toEqual([(await runOf(batch)).body]);
    expect((await api('GET', '/v1/runs?state=acting')).body).toEqual([]);
    expect(tools.asked).toEqual([]);
    await audited();

    const approve = { type: 'approval', tool_call_id: ids[0], approve: true };
    const approved = await answer(batch, approve);
    expect(approved).toMatchObject({ status: 200, body: { state: 'acting', waits_for: null } });
    // A client that lost the reply sends it again.
    expect((await answer(batch, approve)).status).toBe(200);
    await audited();
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(tools.asked.map(({ tool_name, arguments: args }) => [tool_name, args])).toEqual([
      ['look', {}],
      ['pay', { what: 'theirs' }],
    ]);
    expect(sent[1]?.messages.at(-1)?.content).toMatchObject([
      { type: 'tool_result', content: 'paid' },
      { type: 'tool_result', content: 'paid' },
    ]);
    expect((await answer(batch, approve)).status).toBe(200);
    expect((await api('GET', `/v1/batches/job-${batch.id}`)).body.counts.requires_action).toBe(0);
    await audited();
  });

  test('is an error with the reason if denied, is never made, and counts for no rule', async () => {
    const tools = answering();
    const { provider, sent } = recording(house);
    const worker = house.worker({ tools, provider });
    const { batch, ids } = await untilAsked(
      {
        input: script({ tool: 'pay' }, { text: 'Then not.' }),
        tools: ['pay', 'look'],
        tool_rules: [...APPROVAL, { type: 'exit_loop', tool_name: 'pay' }],
      },
      worker,
    );
    const deny = { type: 'approval', tool_call_id: ids[0], approve: false, reason: 'Too dear.' };
    expect((await answer(batch, deny)).status).toBe(200);
    expect(await answer(batch, { ...deny, approve: true })).toMatchObject({ status: 409 });
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(tools.asked).toEqual([]);
    expect(sent[1]?.messages.at(-1)?.content).toMatchObject([
      {
        content: 'The caller denied this call; it was not carried out. Reason: Too dear.',
        is_error: true,
      },
    ]);
    await audited();
  });

  test.each([
    [{ type: 'run_first', tool_name: 'pay' }, [], ['pay', undefined, undefined]],
    [
      { type: 'constrain_child_tools', tool_name: 'look', children: ['pay'] },
      [{ tool: 'look' }],
      [undefined, 'pay', undefined, undefined],
    ],
  ])(
    'is not forced again after a denial, though %j forces it: the model is free to choose',
    async (rule, before, forced) => {
      const { provider, sent } = recording(house);
      const worker = house.worker({ tools: answering(), provider });
      const { batch, ids } = await untilAsked(
        {
          input: script(...before, { tool: 'pay' }, { tool: 'ring' }, { text: 'Then not.' }),
          tools: ['pay', 'look', 'ring'],
          tool_rules: [...APPROVAL, rule],
        },
        worker,
      );
      await answer(batch, { type: 'approval', tool_call_id: ids[0], approve: false, reason: 'Too dear.' });
      await house.drive(worker);
      expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
      expect(sent.map(({ tool_choice }) => tool_choice?.['name'])).toEqual(forced);
      await audited();
    },
  );

  test('of a memory tool writes the block on approval, and not before', async () => {
    const worker = house.worker();
    await house.rows(`update tool set requires_approval = true where name = 'core_memory_append'`);
    const { batch, ids } = await untilAsked(
      {
        input: script([
          { tool: 'core_memory_append', args: { label: 'notes', content: 'approved' } },
          { tool: 'memory_insert', args: { label: 'notes', new_string: 'at once' } },
        ]),
        blocks: { notes: 'old' },
        tools: ['core_memory_append', 'memory_insert'],
      },
      worker,
    );
    const valueOf = () => house.rows('select value from block_revision order by revision desc limit 1');
    expect(await valueOf()).toEqual([{ value: 'old\nat once' }]);
    await answer(batch, { type: 'approval', tool_call_id: ids[0], approve: true });
    await house.drive(worker);
    expect(await valueOf()).toEqual([{ value: 'old\nat once\napproved' }]);
    await audited();
  });

  test('of a memory tool creates blocks beside blocks that the same answer created at once', async () => {
    const worker = house.worker();
    await house.rows(`update tool set requires_approval = true where name = 'memory_apply_patch'`);
    const create = (path: string) => ({
      tool: 'memory',
      args: { command: 'create', path, description: 'd' },
    });
    const { batch, ids } = await untilAsked(
      {
        input: script([
          create('first'),
          { tool: 'memory_apply_patch', args: { patch: '*** Add Block: third\n+approved' } },
          create('second'),
        ]),
        tools: ['memory', 'memory_apply_patch'],
      },
      worker,
    );
    await answer(batch, { type: 'approval', tool_call_id: ids[0], approve: true });
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    const events = await house.rows('select kind, label, place from block_event order by place');
    expect(events).toEqual(
      ['first', 'second', 'third'].map((label, place) => ({ kind: 'created', label, place })),
    );
    await audited();
  });

  test('of a search finds entries from before its answer, but neither the answer nor its other entries', async () => {
    const { provider, sent } = recording(house);
    const worker = house.worker({ provider });
    await house.rows(`update tool set requires_approval = true where name like '%_search'`);
    const keep = (content: string) => ({ tool: 'archival_memory_insert', args: { content } });
    const { batch, ids } = await untilAsked(
      {
        input: script(keep('Tea is kept.'), [
          keep('Tea is kept at once.'),
          { tool: 'archival_memory_search', args: { query: 'tea' } },
          { tool: 'conversation_search', args: { roles: ['assistant'] } },
        ]),
        tools: ['archival_memory_insert', 'archival_memory_search', 'conversation_search'],
      },
      worker,
    );
    await house.rows(
      `update message
          set content = (jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'Step ' || step_number)) || content::jsonb)::json
        where role = 'assistant'`,
    );
    for (const tool_call_id of ids) await answer(batch, { type: 'approval', tool_call_id, approve: true });
    await house.drive(worker);
    const results = sent.at(-1)?.messages.at(-1)?.content.slice(1) as unknown as { content: string }[];
    expect(results.map(({ content }) => JSON.parse(content) as unknown)).toMatchObject([
      { results: [{ content: 'Tea is kept.' }] },
      { results: [{ content: 'Step 1' }] },
    ]);
    await audited();
  });

  describe('of a memory tool, after direct edits of the same answer,', () => {
    const edits = script([
      { tool: 'memory_insert', args: { label: 'notes', new_string: 'at once' } },
      { tool: 'memory', args: { command: 'create', path: 'plan', description: 'd', file_text: 'made' } },
      { tool: 'memory_rethink', args: { label: 'notes', new_memory: 'approved' } },
      { tool: 'memory_rethink', args: { label: 'plan', new_memory: 'planned' } },
    ]);
    /** Returns the blocks after the rewrites are approved. `meanwhile` runs while the request is out. */
    const approved = async (apply: 'auto' | 'review', policy: string, meanwhile?: string) => {
      const worker = house.worker({
        hooks: async (point) => {
          if (point !== 'ingest.after_claim' || meanwhile === undefined) return;
          await house.rows(
            `with moved as (update block set head_revision = 2 where head_revision = 1 and label = 'notes'
                            returning id, project_id)
             insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
             select id, 2, project_id, $1, 10000, false, 1 from moved`,
            [meanwhile],
          );
        },
      });
      await house.rows(`update tool set requires_approval = true where name = 'memory_rethink'`);
      const run = {
        input: edits,
        blocks: { notes: 'old' },
        tools: ['memory_insert', 'memory', 'memory_rethink'],
      };
      const { batch, ids } = await untilAsked(run, worker, { apply }, policy);
      await answer(batch, ...ids.map((tool_call_id) => ({ type: 'approval', tool_call_id, approve: true })));
      await house.drive(worker);
      await audited();
      const rows = await house.rows<{ label: string; value: string }>(
        `select b.label, r.value from block b join block_revision r on r.block_id = b.id and r.revision = b.head_revision
          where b.held_by_batch_id is not distinct from $1 order by b.label`,
        [apply === 'review' ? batch.id : null],
      );
      return Object.fromEntries(rows.map(({ label, value }) => [label, value]));
    };

    test.each([
      ['auto', 'reject'],
      ['auto', 'merge'],
      ['review', 'reject'],
    ] as const)('treats them as its own (%s, %s)', async (apply, policy) => {
      expect(await approved(apply, policy)).toEqual({ notes: 'approved', plan: 'planned' });
    });

    test.each([
      ['reject', 'by hand'],
      ['merge', 'approved\nby hand\nat once'],
    ])('undoes no concurrent write of others (%s)', async (policy, notes) => {
      expect(await approved('auto', policy, policy === 'merge' ? 'old\nby hand' : 'by hand')).toEqual({
        notes,
        plan: 'planned',
      });
    });
  });

  test('is not made on an approval after the deadline, even if the run has not ended yet', async () => {
    const tools = answering(() => 'paid');
    const worker = house.worker({ tools });
    const { batch, ids } = await untilAsked(
      {
        input: script([{ tool: 'pay' }, { tool: 'pay' }]),
        tools: ['pay'],
        tool_rules: APPROVAL,
        deadline: '2999-01-01T00:00:00Z',
      },
      worker,
    );
    const [early, late] = ids.map((tool_call_id) => ({ type: 'approval', tool_call_id, approve: true }));
    expect((await answer(batch, early!)).status).toBe(200);
    await house.rows(
      `update run set deadline_at = '2020-01-01T00:00:00Z', overdue_from = '2020-01-01T00:00:00Z'`,
    );
    expect(await answer(batch, late!)).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('its run has passed its deadline') as string },
    });
    expect((await answer(batch, early!)).status).toBe(200);
    await house.drive(worker);
    expect(tools.asked.map(({ tool_use_id }) => tool_use_id)).toEqual([ids[0]]);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'failed', stop_reason: 'deadline' }]);
    await audited();
  });

  test('of a cancelled batch is never made; the run ends, and its conversation stays usable', async () => {
    const tools = answering();
    const worker = house.worker({ tools });
    const { batch, ids } = await untilAsked(
      { input: script({ tool: 'pay' }), tools: ['pay'], tool_rules: APPROVAL },
      worker,
    );
    await house.cancel(batch.id);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled', stop_reason: 'cancelled' }]);
    expect(tools.asked).toEqual([]);
    const late = await answer(batch, { type: 'approval', tool_call_id: ids[0], approve: true });
    expect(late).toMatchObject({ status: 409 });
    expect(late.body.detail).toContain('its run has ended');
    await audited();
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(worker);
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  });
});

describe('incomplete answers at the deadline', () => {
  test('have the approved calls made, and no other waiting call', async () => {
    const tools = answering();
    const worker = house.worker({ tools });
    const pay = (what: string) => ({ tool: 'pay', args: { what } });
    const { batch, ids } = await untilAsked(
      {
        input: script([{ tool: 'ring', args: {} }, pay('mine'), pay('theirs'), { tool: 'ask_user' }]),
        tools: ['pay', 'ring'],
        tool_rules: APPROVAL,
        client_tools: [ASK],
        deadline: '2999-01-01T00:00:00Z',
      },
      worker,
    );
    expect(ids).toHaveLength(3);
    await answer(batch, { type: 'approval', tool_call_id: ids[0], approve: true });
    await house.rows(`update run set deadline_at = '2020-01-01', overdue_from = '2020-01-01'`);
    await house.drive(worker);
    expect(tools.asked.map(({ arguments: args }) => args)).toEqual([{ what: 'mine' }]);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'failed', stop_reason: 'deadline' }]);
    expect(await house.rows('select state from tool_call order by call_index')).toEqual(
      ['failed', 'succeeded', 'failed', 'failed'].map((state) => ({ state })),
    );
    await audited();
  });
});

describe('a client tool', () => {
  test('waits for its results, which may come one by one, and sends all back in one message', async () => {
    const { provider, sent } = recording(house);
    const worker = house.worker({ provider, tools: answering(() => 'seen') });
    const { batch, ids } = await untilAsked(
      {
        input: script(
          [
            { tool: 'ask_user', args: { question: 'a' } },
            { tool: 'look' },
            { tool: 'ask_user', args: { question: 'b' } },
            { tool: 'ask_user', args: { question: 3 } },
          ],
          { text: 'Thanks.' },
        ),
        tools: ['look'],
        client_tools: [ASK],
      },
      worker,
    );
    expect(ids).toHaveLength(2);
    const first = { type: 'tool', tool_call_id: ids[0], tool_return: 'x'.repeat(30), status: 'success' };
    const answered = await answer(batch, first);
    expect(answered.body).toMatchObject({
      state: 'requires_action',
      waits_for: { type: 'caller', tool_calls: [{ tool_call_id: ids[1] }] },
    });
    await audited();
    await answer(batch, { ...first, tool_call_id: ids[1], tool_return: 'no idea', status: 'error' });
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(sent[1]?.messages.at(-1)?.content).toMatchObject([
      { content: expect.stringMatching(/^x{20}\.\.\. \[NOTE/) as string },
      { content: 'seen' },
      { content: 'no idea', is_error: true },
      { content: expect.stringContaining('/question must be string') as string, is_error: true },
    ]);
    await audited();
  });

  test('is not called with a number that the caller would read as another', async () => {
    const { provider, sent } = recording(house);
    const ask = (id: number | string) => ({ tool: 'ask_user', args: { question: 'Who?', id } });
    const { ids } = await untilAsked(
      { input: script(ask(2 ** 60), ask('1152921504606846976')), client_tools: [ASK] },
      house.worker({ provider }),
    );
    expect(ids).toHaveLength(1);
    expect(JSON.stringify(sent[1]?.messages.at(-1))).toContain(
      "The call of 'ask_user' was not made: it holds a number near 1152921504606847000",
    );
    await audited();
  });

  test('accepts exactly the awaited answers, or rejects all', async () => {
    const worker = house.worker();
    const { batch, ids } = await untilAsked(
      {
        input: script([{ tool: 'ask_user' }, { tool: 'pay' }]),
        tools: ['pay'],
        client_tools: [ASK],
        tool_rules: APPROVAL,
      },
      worker,
    );
    const [asked, paid] = ids;
    const good = { type: 'tool', tool_call_id: asked, tool_return: 'yes', status: 'success' };
    for (const [approvals, status, path] of [
      [[good, { ...good, tool_call_id: 'toolu_nowhere' }], 422, '/approvals/1/tool_call_id'],
      [[good, good], 422, '/approvals/1/tool_call_id'],
      [[good, { ...good, tool_call_id: paid }], 422, '/approvals/1/type'],
      [[{ type: 'approval', tool_call_id: asked, approve: true }], 422, '/approvals/0/type'],
      [[], 422, '/approvals'],
    ] as const) {
      const { status: got, body } = await answer(batch, ...approvals);
      expect([got, body.errors[0]?.path]).toEqual([status, path]);
    }
    expect(await house.rows('select verdict from tool_call')).toEqual([{ verdict: null }, { verdict: null }]);
    const unknown = await api('POST', '/v1/runs/run-01890000-0000-7000-8000-000000000000/tool-results', {
      approvals: [good],
    });
    expect(unknown.status).toBe(404);
  });

  test('accepts one of two concurrent answers', async () => {
    const worker = house.worker();
    const { batch, ids } = await untilAsked(
      { input: script({ tool: 'ask_user' }, { text: 'Thanks.' }), client_tools: [ASK] },
      worker,
    );
    const good = { type: 'tool', tool_call_id: ids[0], tool_return: 'yes', status: 'success' };
    const answers = await Promise.all([answer(batch, good), answer(batch, good), answer(batch, good)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await house.rows('select 1 from run_chunk')).toHaveLength(1);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    await audited();
  });
});
