import type {} from '../../../../test/global-setup.ts';
import { modelTraits, parseModelHandle } from '@nightshift/agent-core';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  answering,
  call,
  openHouse,
  recording,
  script,
  type House,
  type SentParams,
  type SubmittedRun,
  type Turn,
} from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'weigh'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
      side_effects: 'none' as const,
      return_char_limit: 10_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

/**
 * Takes a run to its end against a strictly validating provider, and returns all its requests. Each transcript also checks
 * that no request was refused and that the audit is clean.
 */
async function transcriptOf(run: SubmittedRun, tools = answering()): Promise<readonly SentParams[]> {
  const { provider, sent } = recording(house);
  const batch = await house.submit([{ tools: ['look', 'weigh'], ...run }]);
  await house.drive(house.worker({ provider, tools }), { rounds: 1_000 });
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
  expect(await house.rows(`select error from step where state not in ('done')`)).toEqual([]);
  expect(await auditInvariants(house.database.db)).toEqual([]);
  const stored = await house.rows<object>(
    'select role, content from message where shown and conversation_id = (select conversation_id from run where id = $1) order by seq',
    [batch.run_ids[0]],
  );
  for (const [index, request] of sent.entries()) {
    if (asksForSummary(request)) continue;
    // After a summary, a request shows the messages unchanged up to the latest.
    const messages = startsWithSummary(request) ? request.messages.slice(1) : request.messages;
    // Thinking from behind another prefix is left out if the model binds it: the shapes tell.
    const said = startsWithSummary(request) && bindsThoughts(run) ? withoutThoughts : linesOf;
    expect(said(stored)).toContain(said(messages));
    // Without a summary in between, it begins with the request before it.
    const before = sent[index - 1];
    if (before === undefined || asksForSummary(before)) continue;
    expect(linesOf(request.messages).startsWith(linesOf(before.messages))).toBe(true);
  }
  return sent;
}

const bindsThoughts = ({ model }: SubmittedRun): boolean =>
  model !== undefined && modelTraits(parseModelHandle(model)?.name ?? model).binds_thinking;
const withoutThoughts = (messages: readonly object[]): string =>
  linesOf(
    (messages as readonly SentParams['messages'][number][]).map(({ content, ...message }) => ({
      ...message,
      content: content.filter(({ type }) => type !== 'thinking'),
    })),
  );
const linesOf = (messages: readonly object[]): string =>
  messages.map((message) => `${JSON.stringify(message, withoutMarks)}\n`).join('');
const withoutMarks = (key: string, value: unknown): unknown => (key === 'cache_control' ? undefined : value);
const asksForSummary = ({ messages }: SentParams): boolean =>
  JSON.stringify(messages).includes('<transcript>');
const startsWithSummary = ({ messages }: SentParams): boolean =>
  JSON.stringify(messages[0]).includes('earlier messages are no longer shown');

/** Returns the shape of a request, by default the last: roles, and the block types of each message; errors are marked. */
function shapeOf(sent: readonly SentParams[], at = -1): readonly string[] {
  return (sent.at(at)?.messages ?? []).map(
    ({ role, content }) =>
      `${role}: ${content.map(({ type, is_error }) => (is_error === true ? `${type}!` : type)).join(' ')}`,
  );
}

describe('golden transcripts', () => {
  test('three steps of calls, one of them parallel, every result in the order of its call', async () => {
    const sent = await transcriptOf({
      input: [
        '⟦sim:assertTranscript⟧',
        call('look', { n: 1 }),
        call('weigh', { n: 2 }),
        call('look', { n: 3 }, true),
        call('weigh', { n: 4 }, true),
        call('look', { n: 5 }),
      ].join('\n'),
    });
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: tool_use',
      'user: tool_result',
      'assistant: tool_use tool_use tool_use',
      'user: tool_result tool_result tool_result',
      'assistant: tool_use',
      'user: tool_result',
    ]);
  });

  test.each([
    ['omitted', 'thinking'],
    ['summarized', 'thinking'],
    ['redacted', 'redacted_thinking'],
  ])('thinking that is %s is sent back unchanged', async (display, type) => {
    const sent = await transcriptOf({
      input: `⟦sim:thinking?display=${display}&tool=look⟧`,
      model: 'anthropic/claude-sonnet-4-6',
      extra: { thinking: { type: 'adaptive' } },
      tool_rules: [{ type: 'constrain_child_tools', tool_name: 'zzz', children: ['look'] }],
    });
    expect(shapeOf(sent)).toEqual(['user: text', `assistant: ${type} tool_use`, 'user: tool_result']);
  });

  test('texts between calls are sent back unchanged, as thinking', async () => {
    const sent = await transcriptOf({
      input: '⟦sim:textBetweenToolsAsThinking?tool=look⟧',
      model: 'anthropic/claude-opus-5-5',
    });
    expect(shapeOf(sent).join(' ')).toContain('thinking');
  });

  test('an unknown block type does not break the next run', async () => {
    const first = await house.submit([{ input: '⟦sim:unknownBlockType⟧' }]);
    await house.drive(house.worker());
    const sent = await transcriptOf({
      input: call('look', {}),
      agent_id: first.agent_ids[0]!,
      tools: [],
    });
    expect(shapeOf(sent)[1]).toBe('assistant: text hologram text');
  });

  test('unknown tools, bad arguments and failures are errors that the model reads and answers', async () => {
    let tries = 0;
    const sent = await transcriptOf(
      {
        input: script(
          [
            { tool: 'summon', args: {} },
            { tool: 'look', args: { n: 'one' } },
            { tool: 'weigh', args: { n: 1 } },
          ],
          { tool: 'weigh', args: { n: 2 } },
          { text: 'At last.' },
        ),
      },
      answering(() => (tries++ === 0 ? new Error('out of order') : 'heavy')),
    );
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: tool_use tool_use tool_use',
      'user: tool_result! tool_result! tool_result!',
      'assistant: tool_use',
      'user: tool_result',
    ]);
  });

  test('a server tool beside a call of ours is answered with results alone', async () => {
    const sent = await transcriptOf({ input: '⟦sim:mixedServerClientTools?tool=look⟧' });
    expect(shapeOf(sent).at(-1)).toBe('user: tool_result');
  });

  test('pauses are resumed without a message of ours', async () => {
    const sent = await transcriptOf({ input: '⟦sim:pauseTurn?k=2⟧' });
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: text server_tool_use web_search_tool_result',
      'assistant: text server_tool_use web_search_tool_result',
    ]);
  });

  test('re-asks by rule, after words and behind results, keep every request in order', async () => {
    const sent = await transcriptOf({
      input: script(
        { text: 'Hm.' },
        [{ tool: 'weigh' }, { tool: 'look' }],
        { tool: 'weigh' },
        { text: 'Done.' },
      ),
      tool_rules: [
        { type: 'run_first', tool_name: 'look' },
        { type: 'constrain_child_tools', tool_name: 'look', children: ['weigh'] },
        { type: 'required_before_exit', tool_name: 'weigh' },
      ],
      model: 'anthropic/claude-opus-5-5',
    });
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: text',
      'user: text',
      'assistant: tool_use tool_use',
      'user: tool_result! tool_result',
      'assistant: tool_use',
      'user: tool_result',
    ]);
  });

  test('a call cut by max_tokens is requested once more with twice the tokens, and its half is never shown', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { times: 1 },
      outcome: { type: 'script', script: 'maxTokensMidToolUse', args: { tool: 'look' } },
    });
    const { provider, sent } = recording(house);
    const batch = await house.submit([
      { input: script({ tool: 'look' }, { text: 'Seen.' }), tools: ['look'] },
    ]);
    await house.drive(house.worker({ provider, tools: answering() }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', step_number: 2 }]);
    expect(sent.map(({ max_tokens }) => max_tokens)).toEqual([1024, 2048, 1024]);
    expect(JSON.stringify(sent[1]?.messages)).toBe(JSON.stringify(sent[0]?.messages));
  });

  test('an unknown block type within a run is sent back byte for byte', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { nth: 2 },
      outcome: { type: 'script', script: 'unknownBlockType', args: {} },
    });
    const sent = await transcriptOf({
      input: script({ tool: 'look' }, { text: 'instead of this' }, { tool: 'weigh' }, { text: 'Done.' }),
      tool_rules: [{ type: 'required_before_exit', tool_name: 'weigh' }],
    });
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: tool_use',
      'user: tool_result',
      'assistant: text hologram text',
      'user: text',
      'assistant: tool_use',
      'user: tool_result',
    ]);
    expect(JSON.stringify(sent.at(-1)?.messages[3]?.content[1])).toBe(
      '{"type":"hologram","payload":{"z":1,"a":[1.5,null,"é"]},"opaque":"c2ltdWxhdG9y"}',
    );
  });

  test.each<[string, Record<string, string>, string]>([
    ['with the results of its search', {}, ' web_search_tool_result'],
    ['with its search still open', { unpaired: '1' }, ''],
  ])('a pause %s, between calls of ours, is resumed unchanged', async (_what, args, result) => {
    house.simulator.control.addRule({
      op: 'request',
      match: { nth: 2 },
      outcome: { type: 'script', script: 'pauseTurn', args: { k: '9', ...args } },
    });
    const sent = await transcriptOf({
      input: script(
        [{ tool: 'look' }, { tool: 'weigh' }],
        { text: 'instead of this' },
        { tool: 'weigh', args: { n: 2 } },
        { text: 'Done.' },
      ),
    });
    expect(shapeOf(sent)).toEqual([
      'user: text',
      'assistant: tool_use tool_use',
      'user: tool_result tool_result',
      `assistant: text server_tool_use${result}`,
      'assistant: tool_use',
      'user: tool_result',
    ]);
  });

  // A call that needs an approval waits for its caller; see caller.test.ts.
  test.each<[string, readonly object[], readonly Turn[], readonly string[]]>([
    [
      'run_first',
      [{ type: 'run_first', tool_name: 'look' }],
      [[{ tool: 'weigh' }, { tool: 'look' }], { text: 'Done.' }],
      ['assistant: tool_use tool_use', 'user: tool_result! tool_result'],
    ],
    [
      'constrain_child_tools',
      [{ type: 'constrain_child_tools', tool_name: 'look', children: ['weigh'] }],
      [{ tool: 'look' }, [{ tool: 'weigh' }, { tool: 'look', args: { n: 2 } }], { text: 'Done.' }],
      [
        'assistant: tool_use',
        'user: tool_result',
        'assistant: tool_use tool_use',
        'user: tool_result tool_result!',
      ],
    ],
    [
      'parent_last_tool',
      [{ type: 'parent_last_tool', tool_name: 'look', children: ['weigh'] }],
      [[{ tool: 'weigh' }, { tool: 'look' }], { tool: 'weigh' }, { text: 'Done.' }],
      [
        'assistant: tool_use tool_use',
        'user: tool_result! tool_result',
        'assistant: tool_use',
        'user: tool_result',
      ],
    ],
    [
      'conditional',
      [{ type: 'conditional', tool_name: 'look', child_output_mapping: { done: 'weigh' } }],
      [{ tool: 'look' }, [{ tool: 'look' }, { tool: 'weigh' }], { text: 'Done.' }],
      [
        'assistant: tool_use',
        'user: tool_result',
        'assistant: tool_use tool_use',
        'user: tool_result! tool_result',
      ],
    ],
    [
      'max_count_per_step',
      [{ type: 'max_count_per_step', tool_name: 'look', max_count_limit: 1 }],
      [[{ tool: 'look' }, { tool: 'look', args: { n: 2 } }], { text: 'Done.' }],
      ['assistant: tool_use tool_use', 'user: tool_result tool_result!'],
    ],
    [
      'exit_loop',
      [{ type: 'exit_loop', tool_name: 'weigh' }],
      [{ tool: 'look' }, [{ tool: 'weigh' }, { tool: 'look', args: { n: 2 } }]],
      [
        'assistant: tool_use',
        'user: tool_result',
        'assistant: tool_use tool_use',
        'user: tool_result tool_result',
      ],
    ],
    [
      'continue_loop',
      [{ type: 'continue_loop', tool_name: 'look' }],
      [[{ tool: 'look' }, { tool: 'weigh' }], { text: 'Done.' }],
      ['assistant: tool_use tool_use', 'user: tool_result tool_result'],
    ],
    [
      'required_before_exit',
      [
        { type: 'required_before_exit', tool_name: 'weigh' },
        { type: 'exit_loop', tool_name: 'look' },
      ],
      [{ tool: 'look' }, { text: 'Hm.' }, { tool: 'weigh' }, { text: 'Done.' }],
      [
        'assistant: tool_use',
        'user: tool_result text',
        'assistant: text',
        'user: text',
        'assistant: tool_use',
        'user: tool_result',
      ],
    ],
  ])('%s, on a run and in the run behind it', async (_type, tool_rules, turns, shape) => {
    const first = await house.submit([{ tools: ['look', 'weigh'], input: script(...turns), tool_rules }]);
    await house.drive(house.worker({ tools: answering() }));
    expect(await house.runsOf(first.id)).toMatchObject([{ state: 'completed' }]);
    await house.rows(`update agent set tool_rules = '[]'`);
    const sent = await transcriptOf({
      input: 'And now? ⟦sim:fixed⟧',
      agent_id: first.agent_ids[0]!,
      tools: [],
    });
    const [asked, ...rest] = shapeOf(sent);
    expect([asked, rest.at(-1)]).toEqual(['user: text', 'user: text']);
    expect(rest.slice(0, shape.length)).toEqual(shape);
    expect(rest.length - shape.length).toBeLessThanOrEqual(2);
  });

  test.each([
    ['sonnet-4-6', 'opus-5-5'],
    ['opus-5-5', 'fable-5-2'],
    ['opus-5-5', 'sonnet-4-6'],
  ])('an agent of %s that changes to %s and back shows no thinking that is refused', async (before, then) => {
    const input = [call('look', { n: 1 }), call('weigh', { n: 2 }, true), call('look', { n: 3 })].join('\n');
    const first = await house.submit([
      {
        input,
        tools: ['look', 'weigh'],
        model: `anthropic/claude-${before}`,
        extra: { thinking: { type: 'adaptive' } },
        // Either model summarises some of it on the way.
        agent: { compaction: { mode: 'static_buffer', limit: 8, keep: 6 } },
      },
    ]);
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: '<transcript>' },
      outcome: { type: 'script', script: 'fixed', args: { text: 'All was seen.' } },
    });
    const worker = house.worker({ tools: answering() });
    await house.drive(worker);
    const agent_id = first.agent_ids[0]!;
    for (const model of [then, before, before, then, then]) {
      await house.rows('update agent set model = $1', [`anthropic/claude-${model}`]);
      const next = await house.submit([{ input, agent_id }]);
      await house.drive(worker);
      expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn', error: null }]);
    }
    expect(await house.rows(`select error from step where state <> 'done'`)).toEqual([]);
    expect((await house.rows('select 1 from conversation_summary')).length).toBeGreaterThan(1);
  });

  describe('with summaries within runs', () => {
    /** Steps of two calls each. */
    const plan = (from: number, to: number): string =>
      Array.from({ length: to - from + 1 }, (_, index) => from + index)
        .flatMap((n) => [call('look', { n }), call('weigh', { n }, true)])
        .join('\n');
    /** Long results for three steps, and then short ones. */
    const tools = () =>
      answering(({ arguments: args }) => 'x'.repeat((args as { n: number }).n > 3 ? 10 : 4_000));
    const step = ['assistant: thinking tool_use tool_use', 'user: tool_result tool_result'];
    const steps = (count: number): readonly string[] => Array.from({ length: count }, () => step).flat();
    /** Returns the steps before the summary, whose thinking is left out if the model binds it. */
    const stepsBefore = (model: string, count: number): readonly string[] =>
      steps(count).map((shape) =>
        modelTraits(`claude-${model}`).binds_thinking ? shape.replace('thinking ', '') : shape,
      );
    const thinking = { extra: { thinking: { type: 'adaptive' } } };
    const everyCallOnce = [1, 2, 3, 4, 5].flatMap((n) => ['look', 'weigh'].map((name) => [name, { n }]));
    const madeBy = (host: ReturnType<typeof answering>): unknown =>
      host.asked.map(({ tool_name, arguments: args }) => [tool_name, args]);
    /** Sets the model's summary, which goes on behind the steps that are still shown. */
    const summarise = (stepsShown: number): void => {
      const args = { text: `Still to do:\n${plan(4 - stepsShown, 5)}` };
      house.simulator.control.addRule({
        op: 'request',
        match: { contains: '<transcript>' },
        outcome: { type: 'script', script: 'fixed', args },
      });
    };

    test.each([
      ['the static buffer', 'sonnet-4-6', { mode: 'static_buffer', limit: 6, keep: 3 }, 200_000, 1],
      ['the static buffer', 'opus-5-5', { mode: 'static_buffer', limit: 6, keep: 3 }, 200_000, 1],
      ['the sliding window', 'sonnet-4-6', { mode: 'sliding_window', evict_ratio: 0.2 }, 7_000, 2],
      ['the sliding window', 'opus-5-5', { mode: 'sliding_window', evict_ratio: 0.2 }, 7_000, 2],
    ] as const)(
      'by %s on %s, parallel calls and thinking stay complete on both sides',
      async (_policy, model, compaction, context_window_limit, stepsShown) => {
        summarise(stepsShown);
        const host = tools();
        const agent = { compaction, context_window_limit };
        const sent = await transcriptOf(
          { input: plan(1, 5), model: `anthropic/claude-${model}`, ...thinking, agent },
          host,
        );
        expect(sent.map(asksForSummary)).toEqual([false, false, false, true, false, false, false]);
        const before = stepsBefore(model, stepsShown);
        expect(shapeOf(sent, 4)).toEqual(['user: text', ...before]);
        expect(shapeOf(sent)).toEqual(['user: text', ...before, ...steps(2)]);
        // The summary caused no call to be repeated or left out.
        expect(madeBy(host)).toEqual(everyCallOnce);
      },
    );

    test.each([
      ['sonnet-4-6', 6, 1],
      ['opus-5-5', 6, 1],
    ])(
      'on %s, a second run has its own summaries, each building on the last',
      async (model, limit, stepsShown) => {
        summarise(stepsShown);
        const compaction = { mode: 'static_buffer', limit, keep: 3 } as const;
        const run = { input: plan(1, 5), model: `anthropic/claude-${model}`, ...thinking };
        const first = await house.submit([{ ...run, tools: ['look', 'weigh'], agent: { compaction } }]);
        await house.drive(house.worker({ tools: tools() }));
        const host = tools();
        const sent = await transcriptOf({ ...run, agent_id: first.agent_ids[0]! }, host);
        expect(sent.map(asksForSummary)).toEqual([true, false, false, false, true, false, false, false]);
        expect(shapeOf(sent, 1)).toEqual(['user: text', 'user: text']);
        expect(shapeOf(sent)).toEqual(['user: text', ...stepsBefore(model, stepsShown), ...steps(2)]);
        expect(madeBy(host)).toEqual(everyCallOnce);
      },
    );
  });
});
