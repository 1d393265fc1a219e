import type {} from '../../../../test/global-setup.ts';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { ToolPort } from '../../../../test/runners-of.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
const shout: ToolPort = {
  runCalls: (calls) =>
    Promise.resolve(
      calls.map((one) => ({
        call_id: one.call_id,
        status: 'succeeded' as const,
        result: (one.arguments as { text: string }).text.toUpperCase(),
        duration_ms: 1,
        started: true,
      })),
    ),
};

beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'shout',
        description: 'Says a text louder.',
        input_schema: {
          type: 'object',
          properties: { text: { type: 'string' } },
          required: ['text'],
          additionalProperties: false,
        },
        side_effects: 'none',
        return_char_limit: 1000,
        timeout_ms: 1000,
      },
    ],
  });
});
afterAll(() => house.close());

test('a batch of memory rewrites goes through every flow and ends completed', async () => {
  const runs = Array.from({ length: 5 }, (_, index) => ({
    input: [
      'Rewrite.',
      call('core_memory_append', { label: 'notes', content: `one ${index}` }),
      call('memory_rethink', { label: 'notes', new_memory: `all new ${index}` }),
    ].join('\n'),
    blocks: { notes: 'old' },
    tools: ['core_memory_append', 'memory_rethink'],
  }));
  const batch = await house.submit(runs);
  await house.drive(house.worker());

  const [row] = await house.rows<{ state: string }>('select state from batch where id = $1', [batch.id]);
  expect(row?.state).toBe('completed');
  const ended = await house.rows<{ state: string; stop_reason: string; step_number: number }>(
    'select state, stop_reason, step_number from run where batch_id = $1 order by ordinal',
    [batch.id],
  );
  expect(ended).toEqual(runs.map(() => ({ state: 'completed', stop_reason: 'end_turn', step_number: 3 })));
  const memory = await house.rows<{ value: string; revision: number; run_id: string | null }>(
    `select r.value, r.revision, r.run_id from block_revision r join block b on b.id = r.block_id and b.head_revision = r.revision
       join agent_block ab on ab.block_id = b.id where ab.agent_id = any($1::uuid[]) order by array_position($1::uuid[], ab.agent_id)`,
    [batch.agent_ids],
  );
  expect(memory).toEqual(
    batch.run_ids.map((run_id, index) => ({ value: `all new ${index}`, revision: 3, run_id })),
  );
  const messages = await house.rows<{
    role: string;
    content: { type: string; id?: string; tool_use_id?: string }[];
  }>('select role, content from message where run_id = $1 order by seq', [batch.run_ids[0]]);
  expect(
    messages.map((message) => [message.role, message.content.map((block) => block.type).join()]),
  ).toEqual([
    ['user', 'text'],
    ['assistant', 'tool_use'],
    ['user', 'tool_result'],
    ['assistant', 'tool_use'],
    ['user', 'tool_result'],
    ['assistant', 'text'],
  ]);
  const use = messages[1]?.content.find((block) => block.type === 'tool_use');
  expect(use?.id).toMatch(/^toolu_/);
  expect(messages[2]?.content[0]?.tool_use_id).toBe(use?.id);
  const [tally] = await house.rows<{
    completed: number;
    steps: number;
    tool_calls: number;
    output: number;
    cost: number;
  }>(
    `select sum(completed)::int completed, sum(steps)::int steps, sum(tool_calls)::int tool_calls,
            sum(output_tokens)::int output, sum(cost_nanousd)::float8 as cost from batch_tally where batch_id = $1`,
    [batch.id],
  );
  expect(tally).toMatchObject({ completed: 5, steps: 15, tool_calls: 10 });
  expect(tally?.cost).toBeGreaterThan(0);
});

test('parallel calls of memory and module tools are all answered in one message, in call order', async () => {
  const batch = await house.submit([
    {
      input: [
        call('shout', { text: 'quiet' }),
        call('core_memory_append', { label: 'notes', content: 'more' }, true),
        call('no_such_tool', {}, true),
        call('shout', { loud: true }, true),
        call('shout', { text: 'again' }),
      ].join('\n'),
      blocks: { notes: 'old' },
      tools: ['core_memory_append', 'shout'],
    },
  ]);
  // An enforced schema would keep the model from the invalid call.
  await house.rows('update definition set strict = null');
  await house.drive(house.worker({ tools: shout }));
  const messages = await house.rows<{ role: string; content: Record<string, unknown>[] }>(
    'select role, content from message where run_id = $1 order by seq',
    [batch.run_ids[0]],
  );
  const uses = messages[1]?.content.filter((block) => block['type'] === 'tool_use') ?? [];
  expect(uses).toHaveLength(4);
  // The ids come from the provider.
  for (const { id } of uses) expect(id).toMatch(/^toolu_/);
  expect(messages[2]?.content.map((block) => [block['tool_use_id'], block['is_error'] ?? false])).toEqual(
    uses.map((block, index) => [block['id'], index >= 2]),
  );
  expect(messages[2]?.content[0]?.['content']).toBe('QUIET');
  expect(messages[4]?.content[0]?.['content']).toBe('AGAIN');
  const calls = await house.rows<{ state: string; kind: string; held_result: string | null }>(
    'select state, kind, held_result from tool_call where run_id = $1 and step_number = 1 order by call_index',
    [batch.run_ids[0]],
  );
  expect(calls).toEqual([
    { state: 'succeeded', kind: 'module', held_result: null },
    { state: 'succeeded', kind: 'memory', held_result: null },
    { state: 'failed', kind: 'rejected', held_result: null },
    { state: 'failed', kind: 'rejected', held_result: null },
  ]);
});

test('max_steps is exact: the calls of the last step are made and the run ends', async () => {
  const batch = await house.submit([
    {
      input: Array.from({ length: 6 }, (_, n) =>
        call('core_memory_append', { label: 'notes', content: `n${n}` }),
      ).join('\n'),
      blocks: { notes: '' },
      tools: ['core_memory_append'],
      max_steps: 3,
    },
  ]);
  await house.drive(house.worker());
  const [run] = await house.rows('select state, stop_reason, step_number from run where id = $1', [
    batch.run_ids[0],
  ]);
  expect(run).toEqual({ state: 'completed', stop_reason: 'max_steps', step_number: 3 });
  const [steps] = await house.rows<{ count: number }>(
    'select count(*)::int as count from step where run_id = $1',
    [batch.run_ids[0]],
  );
  expect(steps?.count).toBe(3);
});

test('every step is booked with its own usage and cost, and their sum is the provider’s bill', async () => {
  const batch = await house.submit(
    Array.from({ length: 6 }, (_, index) => ({
      input: [
        'x'.repeat(4_000 * index),
        call('core_memory_append', { label: 'notes', content: `n${index}` }),
      ].join('\n'),
      blocks: { notes: '' },
      tools: ['core_memory_append'],
      model: `anthropic/claude-${index % 2 === 0 ? 'haiku' : 'sonnet'}-4-5`,
    })),
  );
  await house.drive(house.worker());
  const steps = await house.rows<{
    ordinal: number;
    number: number;
    prompt: number;
    output: number;
    cost: number;
  }>(
    `select r.ordinal, s.number, s.input_tokens + s.cache_read_tokens + s.cache_write_5m_tokens + s.cache_write_1h_tokens as prompt,
            s.output_tokens as output, s.cost_nanousd::float8 as cost
       from step s join run r on r.id = s.run_id where r.batch_id = $1 order by 1, 2`,
    [batch.id],
  );
  expect(steps.map(({ ordinal, number }) => [ordinal, number])).toEqual(
    Array.from({ length: 12 }, (_, index) => [Math.floor(index / 2), (index % 2) + 1]),
  );
  for (const { prompt, output, cost } of steps) expect(Math.min(prompt, output, cost)).toBeGreaterThan(0);
  // Each usage is its own run's: input tokens grow with the run's own input.
  const firsts = steps.filter(({ number }) => number === 1).map(({ prompt }) => prompt);
  for (const [index, prompt] of firsts.entries()) {
    if (index > 0) expect(prompt - (firsts[index - 1] ?? 0)).toBeCloseTo(1_000, -2);
  }
  const [sums] = await house.rows<{
    booked: number;
    tallied: number;
    output: number;
    tallied_output: number;
  }>(
    `select (select sum(cost_nanousd)::float8 from step) as booked, (select sum(cost_nanousd)::float8 from batch_tally) as tallied,
            (select sum(output_tokens)::int from step) as output, (select sum(output_tokens)::int from batch_tally) as tallied_output`,
  );
  const { totals } = house.simulator.control.ledger();
  const billed = Math.round(totals.usd * 1e9);
  expect(sums).toEqual({
    booked: billed,
    tallied: billed,
    output: totals.output_tokens,
    tallied_output: totals.output_tokens,
  });
});

test('two runs of one agent take turns, and the second reads the writes of the first', async () => {
  const batch = await house.submit([
    {
      input: call('core_memory_append', { label: 'notes', content: 'first' }),
      blocks: { notes: '' },
      tools: ['core_memory_append'],
    },
    { input: call('core_memory_append', { label: 'notes', content: 'second' }), same_agent_as: 0 },
  ]);
  expect(await house.rows('select state from run where batch_id = $1 order by ordinal', [batch.id])).toEqual([
    { state: 'ready' },
    { state: 'queued' },
  ]);
  await house.drive(house.worker());
  expect(
    await house.rows('select state, first_seq > 1 as later from run where batch_id = $1 order by ordinal', [
      batch.id,
    ]),
  ).toEqual([
    { state: 'completed', later: false },
    { state: 'completed', later: true },
  ]);
  const [block] = await house.rows<{ value: string }>(
    `select r.value from agent_block ab join block b on b.id = ab.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision where ab.agent_id = $1`,
    [batch.agent_ids[0]],
  );
  expect(block?.value).toBe('\nfirst\nsecond');
  const gaps = await house.rows(
    `select conversation_id from message group by 1 having max(seq) - min(seq) + 1 <> count(*)`,
  );
  expect(gaps).toEqual([]);
});
