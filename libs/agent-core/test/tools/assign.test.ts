import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import type { ToolUseBlock } from '../../src/model/content.ts';
import { assignCalls } from '../../src/tools/assign.ts';
import { toolResultsMessage } from '../../src/tools/results.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { makeTool } from './tools.ts';

const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const tools = [
  makeTool('remember', schema, { kind: 'memory' }),
  makeTool('run', schema, { kind: 'module' }),
  makeTool('ask', schema, { kind: 'client' }),
];
const validate = createArgumentValidator();
const use = (id: string, name: string, input: Json): ToolUseBlock => ({ type: 'tool_use', id, name, input });

describe('assignCalls', () => {
  test('gives each call to the kind of its tool, in order', () => {
    const calls = assignCalls(
      [use('1', 'run', { a: 1 }), use('2', 'remember', { a: 2 }), use('3', 'ask', { a: 3 })],
      tools,
      validate,
    );
    expect(calls).toEqual([
      {
        index: 0,
        tool_use_id: '1',
        tool_name: 'run',
        kind: 'module',
        args: { a: 1 },
        rejection: null,
        tool: tools[1],
      },
      {
        index: 1,
        tool_use_id: '2',
        tool_name: 'remember',
        kind: 'memory',
        args: { a: 2 },
        rejection: null,
        tool: tools[0],
      },
      {
        index: 2,
        tool_use_id: '3',
        tool_name: 'ask',
        kind: 'client',
        args: { a: 3 },
        rejection: null,
        tool: tools[2],
      },
    ]);
  });

  test('a tool that needs an approval is not run: nobody can give one', () => {
    const guarded = makeTool('pay', schema, { kind: 'module', requires_approval: true });
    const [call] = assignCalls([use('1', 'pay', { a: 1 })], [guarded], validate);
    expect(call).toMatchObject({ kind: 'rejected', tool_name: 'pay' });
    expect(call?.rejection).toMatch(/needs the approval of a person.*was not carried out/);
  });

  test('an unknown tool is rejected with the tools there are, in their order', () => {
    expect(assignCalls([use('1', 'nope', { a: 1 })], tools, validate)).toEqual([
      {
        index: 0,
        tool_use_id: '1',
        tool_name: 'nope',
        kind: 'rejected',
        args: { a: 1 },
        rejection: 'Tool not found: nope. Available tools: remember, run, ask.',
        tool: null,
      },
    ]);
  });

  test('names of Object.prototype are unknown tools', () => {
    for (const name of ['constructor', '__proto__', 'toString']) {
      expect(assignCalls([use('1', name, {})], tools, validate)[0]?.kind).toBe('rejected');
    }
  });

  test('the text about an unknown tool stays short', () => {
    const many = Array.from({ length: 60 }, (_, i) => makeTool(`t${i}`, schema));
    const rejection = assignCalls([use('1', 'n'.repeat(10_000), {})], many, validate)[0]?.rejection ?? '';
    expect(rejection).toMatch(/^Tool not found: n{128}…\. Available tools: t0, .*t49, …\.$/);
    expect(assignCalls([use('1', 'x', {})], [], validate)[0]?.rejection).toBe(
      'Tool not found: x. There are no tools to call.',
    );
  });

  test.each<[Json, RegExp]>([
    [{ a: 'x' }, /^Invalid arguments for tool 'run': \/a must be integer$/],
    ['{"a":1}', /the input must be an object/],
    [null, /the input must be an object/],
    [[1], /the input must be an object/],
  ])('the input %j is rejected and keeps its tool', (input, rejection) => {
    const [call] = assignCalls([use('1', 'run', input)], tools, validate);
    expect(call?.kind).toBe('rejected');
    expect(call?.tool).toBe(tools[1]);
    expect(call?.rejection).toMatch(rejection);
  });

  test('of tool uses with one id only the first is carried out or answered', () => {
    const calls = assignCalls(
      [use('1', 'run', { a: 1 }), use('1', 'ask', { a: 2 }), use('2', 'nope', {}), use('2', 'run', { a: 3 })],
      tools,
      validate,
    );
    expect(calls.map(({ index, tool_use_id, kind }) => [index, tool_use_id, kind])).toEqual([
      [0, '1', 'module'],
      [2, '2', 'rejected'],
    ]);
    const message = toolResultsMessage(calls.map((call) => ({ ...call, outcome: { ok: true, result: '' } })));
    expect((JSON.parse(message) as { tool_use_id: string }[]).map((block) => block.tool_use_id)).toEqual([
      '1',
      '2',
    ]);
  });
});
