import type {} from '../../../../test/global-setup.ts';
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
} from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'weigh'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
      side_effects: 'none' as const,
      return_char_limit: 1_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

/**
 * Takes a run to its end against a provider that validates like the real one, and returns every request that it was
 * sent. That none of them was refused, and that the books agree, is part of every transcript.
 */
async function transcriptOf(run: SubmittedRun, tools = answering()): Promise<readonly SentParams[]> {
  const { provider, sent } = recording(house);
  const batch = await house.submit([{ tools: ['look', 'weigh'], ...run }]);
  await house.drive(house.worker({ provider, tools }), { rounds: 1_000 });
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
  expect(await house.rows(`select error from step where state not in ('done')`)).toEqual([]);
  expect(await auditInvariants(house.database.db)).toEqual([]);
  for (const [index, { messages }] of sent.entries()) {
    // Each request begins with the one before it, to the byte: nothing that was said is said otherwise later.
    const before = sent[index - 1]?.messages ?? [];
    expect(JSON.stringify(messages.slice(0, before.length))).toBe(JSON.stringify(before));
  }
  return sent;
}

/** The shape of the last request: roles, and the types of what each message holds; errors are marked. */
function shapeOf(sent: readonly SentParams[]): readonly string[] {
  return (sent.at(-1)?.messages ?? []).map(
    ({ role, content }) =>
      `${role}: ${content.map(({ type, is_error }) => (is_error === true ? `${type}!` : type)).join(' ')}`,
  );
}

describe('golden transcripts', () => {
  test('B11, B88: three steps of calls, one of them parallel, every result in the order of its call', async () => {
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

  test.each(['omitted', 'summarized', 'redacted'])(
    'thinking that is %s goes back as it came',
    async (display) => {
      const sent = await transcriptOf({
        input: `⟦sim:thinking?display=${display}&tool=look⟧`,
        model: 'anthropic/claude-sonnet-4-6',
        extra: { thinking: { type: 'adaptive' } },
        tool_rules: [{ type: 'constrain_child_tools', tool_name: 'zzz', children: ['look'] }],
      });
      expect(sent.length).toBeGreaterThan(0);
    },
  );

  test('B6: texts between calls that come as thinking go back as they came', async () => {
    const sent = await transcriptOf({
      input: '⟦sim:textBetweenToolsAsThinking?tool=look⟧',
      model: 'anthropic/claude-opus-5-5',
    });
    expect(shapeOf(sent).join(' ')).toContain('thinking');
  });

  test('a block type that nobody here knows is no obstacle to the next run', async () => {
    const first = await house.submit([{ input: '⟦sim:unknownBlockType⟧' }]);
    await house.drive(house.worker());
    const sent = await transcriptOf({
      input: call('look', {}),
      agent_id: first.agent_ids[0]!,
      tools: [],
    });
    expect(shapeOf(sent)[1]).toBe('assistant: text hologram text');
  });

  test('B8, B85, B100: unknown tools, bad arguments and failures are errors that the model reads and answers', async () => {
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

  test('pauses are gone on from without a word of ours', async () => {
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

  test('a call cut off by max_tokens is asked for once more with twice as many, and its half is never shown', async () => {
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
});
