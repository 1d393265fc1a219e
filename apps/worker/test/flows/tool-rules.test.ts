import type {} from '../../../../test/global-setup.ts';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  answering,
  openHouse,
  recording,
  script,
  type House,
  type SentBlock,
  type SentParams,
  type SubmittedRun,
} from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'judge', 'mend', 'ship'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { what: { type: 'string' } } },
      side_effects: 'none' as const,
      return_char_limit: 100_000,
      timeout_ms: 1_000,
    })),
  });
});
afterEach(() => house.close());

const TOOLS = ['look', 'judge', 'mend', 'ship'];

/** Takes one run to its end and returns its end and its requests, step by step. */
async function run(
  submitted: Omit<SubmittedRun, 'tools'> & { readonly tools?: readonly string[] },
  tools = answering(),
): Promise<{ ended: object; sent: readonly SentParams[]; asked: readonly string[]; said: string[] }> {
  const { provider, sent } = recording(house);
  const batch = await house.submit([{ tools: TOOLS, ...submitted }]);
  await house.drive(house.worker({ provider, tools }));
  const [ended] = await house.runsOf(batch.id);
  const errored = await house.rows(`select 1 from step where state = 'errored'`);
  expect(errored).toEqual([]);
  return {
    ended: ended!,
    sent,
    asked: tools.asked.map(({ tool_name }) => tool_name),
    said: sent.slice(1).map(({ messages }) => lastText(messages.at(-1)?.content ?? [])),
  };
}

/** Returns a message as the model reads it: results, with errors marked, and texts. */
function lastText(content: readonly SentBlock[]): string {
  return content
    .map((block) => {
      const said = block[block.type === 'tool_result' ? 'content' : 'text'];
      return `${block['is_error'] === true ? '! ' : ''}${typeof said === 'string' ? said : ''}`;
    })
    .join(' | ');
}

const VIOLATION = '[ToolConstraintError] Cannot call';

describe('tool rules, applied by workers', () => {
  test('run_first forces its tool with its arguments, which override the model’s', async () => {
    const tools = answering(({ arguments: args }) => JSON.stringify(args));
    const { ended, sent, said } = await run(
      {
        input: script({ tool: 'ship' }, { tool: 'look', args: { what: 'mine' } }, { text: 'Seen.' }),
        tool_rules: [{ type: 'run_first', tool_name: 'look', args: { what: 'theirs' } }],
      },
      tools,
    );
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn', step_number: 3 });
    expect(sent.map(({ tool_choice }) => tool_choice)).toEqual([
      { type: 'tool', name: 'look' },
      { type: 'tool', name: 'look' },
      undefined,
    ]);
    expect(said).toEqual([`! ${VIOLATION} ship, valid tools include: look.`, '{"what":"theirs"}']);
    // The model's own words stay unchanged.
    expect(sent[2]?.messages.at(-2)?.content).toMatchObject([{ name: 'look', input: { what: 'mine' } }]);
  });

  test('a model that takes no forced choice is asked again in words, and not bound to it', async () => {
    const { ended, sent, said } = await run({
      input: script({ text: 'Hm.' }, { tool: 'look' }, { text: 'Seen.' }),
      model: 'anthropic/claude-opus-5-5',
      tool_rules: [{ type: 'run_first', tool_name: 'look' }],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn', step_number: 3 });
    expect(sent.map(({ tool_choice }) => tool_choice)).toEqual([undefined, undefined, undefined]);
    expect(said[0]).toContain('ToolRuleViolated: Your next response must call look.');
  });

  test('constrain_child_tools forces one of the children next', async () => {
    const { ended, sent, asked, said } = await run({
      input: script({ tool: 'look' }, [{ tool: 'ship' }, { tool: 'mend' }], { text: 'Mended.' }),
      tool_rules: [{ type: 'constrain_child_tools', tool_name: 'look', children: ['judge', 'mend'] }],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn' });
    expect(sent.map(({ tool_choice }) => tool_choice)).toEqual([undefined, { type: 'any' }, undefined]);
    expect(asked).toEqual(['look', 'mend']);
    expect(said[1]).toBe(
      `! ${VIOLATION} ship, valid tools include: judge, mend.\n** Hint: Possible rules that were violated:\n` +
        '\t- After using look, the next tool must be one of: judge, mend. | done',
    );
  });

  test('parent_last_tool allows its children only in the next step', async () => {
    const { ended, asked, said } = await run({
      input: script({ tool: 'ship' }, { tool: 'judge' }, { tool: 'ship' }, { text: 'Shipped.' }),
      tool_rules: [{ type: 'parent_last_tool', tool_name: 'judge', children: ['ship'] }],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn' });
    expect(asked).toEqual(['judge', 'ship']);
    expect(said[0]).toContain(`! ${VIOLATION} ship, valid tools include: look, judge, mend.`);
  });

  test('conditional chooses by the original result of the last tool', async () => {
    let judged = 0;
    const tools = answering(({ tool_name }) =>
      tool_name === 'judge' ? (judged++ === 0 ? 'False' : '{"message":true}') : 'done',
    );
    const { ended, sent, asked } = await run(
      {
        input: script({ tool: 'judge' }, { tool: 'mend' }, { tool: 'judge' }, { tool: 'ship' }),
        tool_rules: [
          {
            type: 'conditional',
            tool_name: 'judge',
            child_output_mapping: { true: 'ship', false: 'mend' },
            require_output_mapping: true,
          },
          { type: 'exit_loop', tool_name: 'ship' },
        ],
      },
      tools,
    );
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 4 });
    expect(sent.map(({ tool_choice }) => tool_choice?.['name'])).toEqual([
      undefined,
      'mend',
      undefined,
      'ship',
    ]);
    expect(asked).toEqual(['judge', 'mend', 'judge', 'ship']);
  });

  test('rules that leave no callable tool end the run as no_valid_tools, and allow no tool', async () => {
    const { ended, asked } = await run(
      {
        input: script({ tool: 'judge' }, { tool: 'ship' }),
        tool_rules: [
          {
            type: 'conditional',
            tool_name: 'judge',
            child_output_mapping: { yes: 'ship' },
            require_output_mapping: true,
          },
        ],
      },
      answering(() => 'perhaps'),
    );
    expect(ended).toMatchObject({
      state: 'failed',
      stop_reason: 'no_valid_tools',
      error: { message: "The tool rules allow no call after 'judge'." },
    });
    expect(asked).toEqual(['judge']);
  });

  test('max_count_per_step counts each call of the run once, over steps and within one', async () => {
    const { ended, asked, said } = await run({
      input: script(
        { tool: 'look' },
        [{ tool: 'look' }, { tool: 'look' }],
        { tool: 'look' },
        { text: 'Enough.' },
      ),
      tool_rules: [{ type: 'max_count_per_step', tool_name: 'look', max_count_limit: 2 }],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn', step_number: 4 });
    expect(asked).toEqual(['look', 'look']);
    expect(said[1]).toMatch(/^done \| ! .* valid tools include: judge, mend, ship\./);
  });

  test('a call of a tool with a limit does not make the run go on', async () => {
    const { ended } = await run({
      input: script({ tool: 'ship' }, { tool: 'ship' }),
      tool_rules: [
        { type: 'max_count_per_step', tool_name: 'ship', max_count_limit: 5 },
        { type: 'exit_loop', tool_name: 'ship' },
      ],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 1 });
  });

  test('exit_loop wins over continue_loop in the same answer, whose calls are all made', async () => {
    const { ended, asked } = await run({
      input: script([{ tool: 'ship' }, { tool: 'look' }]),
      tool_rules: [
        { type: 'continue_loop', tool_name: 'look' },
        { type: 'exit_loop', tool_name: 'ship' },
      ],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 1 });
    expect(asked).toEqual(['ship', 'look']);
  });

  test('required_before_exit asks for the missing call, after words and after a terminal tool', async () => {
    const { ended, said } = await run({
      input: script({ text: 'Done.' }, { tool: 'ship' }, { tool: 'judge' }, { tool: 'ship' }),
      tool_rules: [
        { type: 'required_before_exit', tool_name: 'judge' },
        { type: 'exit_loop', tool_name: 'ship' },
      ],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 4 });
    expect(said[0]).toContain('ToolRuleViolated: You must call judge at least once to exit the loop.');
    expect(said[1]).toMatch(/^done \| .*You must call judge at least once/);
  });

  test('a model that never makes the due call is given up after three re-asks', async () => {
    const { ended, sent } = await run({
      input: script({ text: '1' }, { text: '2' }, { text: '3' }, { text: '4' }),
      tool_rules: [{ type: 'required_before_exit', tool_name: 'judge' }],
    });
    expect(ended).toMatchObject({ state: 'failed', stop_reason: 'loop_detected', step_number: 4 });
    expect(sent).toHaveLength(4);
  });

  test('memory tools follow the rules where their answer is ingested', async () => {
    const { ended, said } = await run({
      input: script(
        { tool: 'core_memory_append', args: { label: 'notes', content: 'too early' } },
        { tool: 'memory_replace', args: { label: 'notes', old_string: 'old', new_string: 'new' } },
        { tool: 'core_memory_append', args: { label: 'elsewhere', content: 'kept' } },
      ),
      blocks: { notes: 'old' },
      tools: ['core_memory_append', 'memory_replace'],
      tool_rules: [
        { type: 'run_first', tool_name: 'memory_replace' },
        {
          type: 'constrain_child_tools',
          tool_name: 'memory_replace',
          children: ['core_memory_append'],
          child_arg_nodes: [{ name: 'core_memory_append', args: { label: 'notes' } }],
        },
        { type: 'exit_loop', tool_name: 'core_memory_append' },
      ],
    });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 3 });
    expect(said[0]).toContain(`! ${VIOLATION} core_memory_append, valid tools include: memory_replace.`);
    const [block] = await house.rows('select value from block_revision order by revision desc limit 1');
    expect(block).toEqual({ value: 'new\nkept' });
  });

  test('the static prompt states the rules, and the tools stay the same for every step', async () => {
    const { sent } = await run({
      input: script({ tool: 'look' }, { tool: 'ship' }),
      tool_rules: [
        { type: 'run_first', tool_name: 'look' },
        { type: 'exit_loop', tool_name: 'ship' },
      ],
    });
    const [first, second] = sent;
    expect(first?.system?.[0]?.text).toMatch(
      /^You keep the memory of one package\.\n\n<tool_usage_rules>[^]*Calling ship ends your response\.[^]*<\/tool_usage_rules>$/,
    );
    expect(second?.system).toEqual(first?.system);
    expect(second?.tools).toEqual(first?.tools);
    expect(first?.tools?.map(({ name }) => name)).toEqual(TOOLS);
  });

  test('agents of one kind share tools and static prompt to the byte, with any memory and at any time', async () => {
    const { provider, sent } = recording(house);
    const worker = house.worker({ provider, tools: answering() });
    const one = (value: string): SubmittedRun => ({
      input: script({ tool: 'look' }, { text: 'Seen.' }),
      tools: TOOLS,
      blocks: { notes: value },
      tool_rules: [{ type: 'exit_loop', tool_name: 'ship' }],
    });
    await house.submit([one('of the first'), one('of the second')]);
    await house.drive(worker);
    await house.rows(`update agent set created_at = created_at - interval '3 days'`);
    await house.submit([one('of a later night')]);
    await house.drive(worker);
    expect(sent).toHaveLength(6);
    const prefixes = sent.map(({ tools, system }) => JSON.stringify([tools, system?.[0]]));
    expect(new Set(prefixes).size).toBe(1);
    expect(sent.map(({ system }) => JSON.stringify(system?.slice(1)).includes('of the first'))).toContain(
      true,
    );
  });

  test('rules fixed by a run stay the same when its agent is changed', async () => {
    const batch = await house.submit([
      {
        input: script({ tool: 'look' }, { tool: 'ship' }),
        tools: TOOLS,
        tool_rules: [{ type: 'exit_loop', tool_name: 'ship' }],
      },
    ]);
    await house.rows(`update agent set tool_rules = '[{"type":"exit_loop","tool_name":"look"}]'`);
    await house.drive(house.worker({ tools: answering() }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'tool_rule', step_number: 2 }]);
  });
});
