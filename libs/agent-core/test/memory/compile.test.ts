import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { compileMemory } from '../../src/memory/compile.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { makeBlock } from './blocks.ts';

const plain = { agent_type: 'memgpt_agent', model_provider: 'anthropic' };
const numbered = { agent_type: 'letta_v1_agent', model_provider: 'anthropic' };

const blocks = [
  makeBlock('human', 'Name: 😀\nCity: Oslo', { description: 'About the user', char_limit: 20_000 }),
  makeBlock('persona', '', { read_only: true, char_limit: 0 }),
];

test('the plain form', () => {
  expect(compileMemory(blocks, plain)).toBe(
    [
      '<memory_blocks>',
      'The following memory blocks are currently engaged in your core memory unit:',
      '',
      '<human>',
      '<description>',
      'About the user',
      '</description>',
      '<metadata>',
      '- chars_current=18',
      '- chars_limit=20000',
      '</metadata>',
      '<value>',
      'Name: 😀',
      'City: Oslo',
      '</value>',
      '</human>',
      '',
      '<persona>',
      '<description>',
      '',
      '</description>',
      '<metadata>',
      '- read_only=true',
      '- chars_current=0',
      '- chars_limit=0',
      '</metadata>',
      '<value>',
      '',
      '</value>',
      '</persona>',
      '',
      '</memory_blocks>',
    ].join('\n'),
  );
});

test('the form with line numbers', () => {
  expect(compileMemory(blocks, numbered)).toBe(
    [
      '<memory_blocks>',
      'The following memory blocks are currently engaged in your core memory unit:',
      '',
      '<human>',
      '<description>',
      'About the user',
      '</description>',
      '<metadata>',
      '- chars_current=18',
      '- chars_limit=20000',
      '</metadata>',
      '<warning>',
      "# NOTE: Line numbers shown below (with arrows like '1→') are to help during editing. Do NOT include line number prefixes in your memory edit tool calls.",
      '</warning>',
      '<value>',
      '1→ Name: 😀',
      '2→ City: Oslo',
      '</value>',
      '</human>',
      '',
      '<persona>',
      '<description>',
      '',
      '</description>',
      '<metadata>',
      '- read_only=true',
      '- chars_current=0',
      '- chars_limit=0',
      '</metadata>',
      '<warning>',
      "# NOTE: Line numbers shown below (with arrows like '1→') are to help during editing. Do NOT include line number prefixes in your memory edit tool calls.",
      '</warning>',
      '<value>',
      '</value>',
      '</persona>',
      '',
      '</memory_blocks>',
    ].join('\n'),
  );
});

describe('the form for each agent', () => {
  test.each([
    ['letta_v1_agent', 'anthropic', true],
    ['memgpt_v2_agent', 'anthropic', true],
    ['sleeptime_agent', 'anthropic', true],
    ['letta_v1_agent', 'openai', false],
    ['memgpt_agent', 'anthropic', false],
    ['split_thread_agent', 'anthropic', false],
  ])('%s with a model of %s: numbered lines %s', (agent_type, model_provider, expected) => {
    expect(compileMemory(blocks, { agent_type, model_provider }).includes('1→ Name')).toBe(expected);
  });

  test.each(['react_agent', 'workflow_agent'])('%s gets no memory section', (agent_type) => {
    expect(compileMemory(blocks, { agent_type, model_provider: 'anthropic' })).toBe('');
  });

  test('without blocks there is nothing, and only the frame in the form with line numbers', () => {
    expect(compileMemory([], plain)).toBe('');
    expect(compileMemory([], numbered)).toBe(
      '<memory_blocks>\nThe following memory blocks are currently engaged in your core memory unit:\n\n\n</memory_blocks>',
    );
  });
});

describe('stored text cannot pose as the prompt around it', () => {
  test.each([
    ['</value>', '<\\/value>'],
    ['</VALUE >', '<\\/VALUE >'],
    ['</ memory_blocks\n>', '<\\/ memory_blocks\n>'],
    ['</human></persona>', '<\\/human><\\/persona>'],
    ['</description></metadata></warning>', '<\\/description><\\/metadata><\\/warning>'],
    ['<b>bold</b> </p> </ </>', '<b>bold</b> </p> </ </>'],
    ['</val</value>', '</val<\\/value>'],
  ])('%j is shown as %j', (text, shown) => {
    const compiled = compileMemory(
      [makeBlock('human', text, { description: text }), makeBlock('persona', '')],
      plain,
    );
    expect(compiled).toContain(`<value>\n${shown}\n</value>`);
    expect(compiled).toContain(`<description>\n${shown}\n</description>`);
    expect(compiled).toContain(`chars_current=${text.length}`);
  });

  test('a label cannot end its tag', () => {
    const compiled = compileMemory([makeBlock('a>\n</memory_blocks>', '</a__/memory_blocks_>')], plain);
    expect(compiled).toContain('<a___/memory_blocks_>\n<description>');
    expect(compiled.match(/<\/memory_blocks>/g)).toHaveLength(1);
  });

  test('whatever the blocks hold, each closing tag stands exactly once per block', () => {
    const text = fc
      .array(fc.constantFrom('</', '<', '>', '/', 'value', 'human', 'memory_blocks', '\n', ' ', 'x'), {
        maxLength: 12,
      })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 3 }), fc.boolean(), (values, withNumbers) => {
        const compiled = compileMemory(
          values.map((value, index) =>
            makeBlock(`human${index === 0 ? '' : index}`, value, { description: value }),
          ),
          withNumbers ? numbered : plain,
        );
        expect(compiled.match(/<\/\s*value\s*>/g)).toHaveLength(values.length);
        expect(compiled.match(/<\/\s*memory_blocks\s*>/g)).toHaveLength(1);
        expect(compiled.match(/<\/\s*human\s*>/g)).toHaveLength(1);
      }),
      { numRuns: 500 },
    );
  });
});

test('equal blocks give equal text', () => {
  expect(compileMemory(structuredClone(blocks), numbered)).toBe(compileMemory(blocks, numbered));
});

test.each(['</', '</value', '</ ', '</value>', '1→ '])('a full block of %j compiles at once', (part) => {
  const value = part.repeat(100_000 / part.length);
  const block = makeBlock('a', value, { description: value });
  expect(cpuMsOf(() => compileMemory([block], numbered))).toBeLessThan(1000);
});
