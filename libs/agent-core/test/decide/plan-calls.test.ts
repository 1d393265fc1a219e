import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import type { ToolUseBlock } from '../../src/model/content.ts';
import type { ToolDefinition } from '../../src/model/tool.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { planCalls } from '../../src/decide/plan-calls.ts';
import { NO_HISTORY, type RuleHistory } from '../../src/rules/history.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import { toolResultsMessage } from '../../src/tools/results.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { after, approval, child, first, makeRules, maxCount } from '../rules/rules.ts';
import { makeTool } from '../tools/tools.ts';

const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const tools = [
  makeTool('remember', schema, { kind: 'memory' }),
  makeTool('run', schema, { kind: 'module' }),
  makeTool('ask', schema, { kind: 'client' }),
];
const validate = createArgumentValidator();

/** Plans by `rules`, by default none. */
function assignCalls(
  uses: readonly ToolUseBlock[],
  from: readonly ToolDefinition[],
  rules: readonly ToolRule[] = [],
  history: RuleHistory = NO_HISTORY,
) {
  const toolPolicy = { ...NO_TOOL_POLICY, tools: from, available: from.map((tool) => tool.name), rules };
  return planCalls(uses, toolPolicy, history, validate);
}

const use = (id: string, name: string, input: Json): ToolUseBlock => ({ type: 'tool_use', id, name, input });

describe('planCalls', () => {
  test('gives each call to the runner of its tool, in order', () => {
    const calls = assignCalls(
      [use('1', 'run', { a: 1 }), use('2', 'remember', { a: 2 }), use('3', 'ask', { a: 3 })],
      tools,
    );
    expect(calls).toEqual([
      {
        index: 0,
        tool_use_id: '1',
        tool_name: 'run',
        kind: 'module',
        args: { a: 1 },
        rejection: null,
        awaits: null,
        prefill_error: null,
        tool: tools[1],
      },
      {
        index: 1,
        tool_use_id: '2',
        tool_name: 'remember',
        kind: 'memory',
        args: { a: 2 },
        rejection: null,
        awaits: null,
        prefill_error: null,
        tool: tools[0],
      },
      {
        index: 2,
        tool_use_id: '3',
        tool_name: 'ask',
        kind: 'client',
        args: { a: 3 },
        rejection: null,
        awaits: 'answer',
        prefill_error: null,
        tool: tools[2],
      },
    ]);
  });

  test('a call awaits the approval that its tool or a rule asks for, and a client tool the answer', () => {
    const guarded = makeTool('pay', schema, { kind: 'module', requires_approval: true });
    const calls = assignCalls(
      [
        use('1', 'pay', { a: 1 }),
        use('2', 'run', { a: 1 }),
        use('3', 'ask', { a: 1 }),
        use('4', 'remember', { a: 1 }),
      ],
      [guarded, ...tools],
      makeRules(approval('run'), approval('ask')),
    );
    expect(calls.map(({ kind, awaits }) => [kind, awaits])).toEqual([
      ['module', 'approval'],
      ['module', 'approval'],
      ['client', 'answer'],
      ['memory', null],
    ]);
    expect(assignCalls([use('1', 'pay', {})], [guarded])[0]).toMatchObject({
      kind: 'rejected',
      awaits: null,
    });
  });

  test('an unknown tool is rejected with the available tools, in their order', () => {
    expect(assignCalls([use('1', 'nope', { a: 1 })], tools)).toEqual([
      {
        index: 0,
        tool_use_id: '1',
        tool_name: 'nope',
        kind: 'rejected',
        args: { a: 1 },
        rejection: 'Tool not found: nope. Available tools: remember, run, ask.',
        awaits: null,
        prefill_error: null,
        tool: null,
      },
    ]);
  });

  test('names of Object.prototype are unknown tools', () => {
    for (const name of ['constructor', '__proto__', 'toString']) {
      expect(assignCalls([use('1', name, {})], tools)[0]?.kind).toBe('rejected');
    }
  });

  test('the error about an unknown tool stays short', () => {
    const many = Array.from({ length: 60 }, (_, i) => makeTool(`t${i}`, schema));
    const rejection = assignCalls([use('1', 'n'.repeat(10_000), {})], many)[0]?.rejection ?? '';
    expect(rejection).toMatch(/^Tool not found: n{128}…\. Available tools: t0, .*t49, …\.$/);
    expect(assignCalls([use('1', 'x', {})], [])[0]?.rejection).toBe(
      'Tool not found: x. There are no tools to call.',
    );
  });

  test.each<[Json, RegExp]>([
    [{ a: 'x' }, /^Invalid arguments for tool 'run': \/a must be integer$/],
    ['{"a":1}', /the input must be an object/],
    [null, /the input must be an object/],
    [[1], /the input must be an object/],
  ])('the input %j is rejected and keeps its tool', (input, rejection) => {
    const [call] = assignCalls([use('1', 'run', input)], tools);
    expect(call?.kind).toBe('rejected');
    expect(call?.tool).toBe(tools[1]);
    expect(call?.rejection).toMatch(rejection);
  });

  test('a null argument of a memory tool counts as omitted, for its schema and its runner', () => {
    const note = { ...schema, properties: { a: { type: 'integer' }, b: { type: 'string' } } };
    const own = [makeTool('remember', note, { kind: 'memory' }), makeTool('run', note, { kind: 'module' })];
    expect(assignCalls([use('1', 'remember', { a: 1, b: null })], own)[0]).toMatchObject({
      kind: 'memory',
      args: { a: 1 },
    });
    expect(assignCalls([use('1', 'remember', { a: 1, b: null })], own)[0]?.args).not.toHaveProperty('b');
    expect(assignCalls([use('1', 'remember', { a: null })], own)[0]?.rejection).toBe(
      "Invalid arguments for tool 'remember': missing required property 'a'",
    );
    expect(assignCalls([use('1', 'remember', null)], own)[0]?.rejection).toMatch(/must be an object/);
    expect(assignCalls([use('1', 'run', { a: 1, b: null })], own)[0]?.rejection).toMatch(/b must be string/);
  });

  test.each<[string, RegExp]>([
    [
      '{"a":1,"id":12345678901234567890}',
      /^The call of 'run' was not made: it holds a number near 1234567890123/,
    ],
    ['{"a":1,"list":[{"amount":1e400}]}', /near Infinity, .* write it as a string\.$/],
  ])('the input %s would reach another as something else, so it is rejected', (json, rejection) => {
    const input = JSON.parse(json) as Json;
    for (const name of ['run', 'ask']) {
      const [call] = assignCalls([use('1', name, input)], tools);
      expect([call?.kind, call?.awaits, call?.tool?.name]).toEqual(['rejected', null, name]);
      expect(call?.rejection).toMatch(name === 'run' ? rejection : /^The call of 'ask' was not made/);
    }
    expect(assignCalls([use('1', 'remember', input)], tools)[0]?.kind).toBe('memory');
  });

  test('of tool uses with equal ids only the first is carried out or answered', () => {
    const calls = assignCalls(
      [use('1', 'run', { a: 1 }), use('1', 'ask', { a: 2 }), use('2', 'nope', {}), use('2', 'run', { a: 3 })],
      tools,
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

describe('calls by rules', () => {
  test('a call that the rules forbid is not carried out, and the model learns the allowed tools', () => {
    const rules = makeRules(child('run', 'remember'));
    const calls = assignCalls(
      [use('1', 'ask', { a: 1 }), use('2', 'remember', { a: 2 })],
      tools,
      rules,
      after(['run']),
    );
    expect(calls.map(({ kind }) => kind)).toEqual(['rejected', 'memory']);
    expect(calls[0]?.rejection).toBe(
      '[ToolConstraintError] Cannot call ask, valid tools include: remember.\n** Hint: Possible rules that were ' +
        'violated:\n\t- After using run, the next tool must be one of: remember.',
    );
  });

  test('a call with arguments that do not fit uses up none of its limit', () => {
    const rules = makeRules(maxCount('run', 1), child('ask', 'run'));
    const wrong = use('1', 'run', { a: 'x' });
    const calls = assignCalls(
      [
        wrong,
        use('2', 'run', { a: 1 }),
        use('3', 'run', { a: 2 }),
        use('4', 'remember', {}),
        use('5', 'run', {}),
      ],
      tools,
      rules,
      after(['ask']),
    );
    expect(calls.map(({ kind }) => kind)).toEqual(['rejected', 'module', 'rejected', 'rejected', 'rejected']);
    expect(calls.map(({ rejection }) => rejection?.replace(/[:.,].*/s, ''))).toEqual([
      "Invalid arguments for tool 'run'",
      undefined,
      '[ToolConstraintError] Cannot call run',
      '[ToolConstraintError] Cannot call remember',
      '[ToolConstraintError] Cannot call run',
    ]);
  });

  test('arguments that a rule fixes override the model’s, before both are validated', () => {
    const rules = makeRules(first('run', { a: 7 }));
    const [given, missing] = assignCalls([use('1', 'run', { a: 1 }), use('2', 'run', {})], tools, rules);
    expect([given?.args, missing?.args]).toEqual([{ a: 7 }, { a: 7 }]);
    expect(assignCalls([use('1', 'run', 'no object')], tools, rules)[0]).toMatchObject({
      kind: 'rejected',
      prefill_error: null,
    });
  });

  test('where arguments of a rule do not fit their tool, no call of the answer is carried out', () => {
    const rules = makeRules(first('run', { a: 'seven' }), first('ask'));
    const calls = assignCalls(
      [use('1', 'ask', { a: 1 }), use('2', 'run', { a: 2 }), use('3', 'nope', {})],
      tools,
      rules,
    );
    expect(calls.map(({ kind, prefill_error }) => [kind, prefill_error])).toEqual([
      ['rejected', null],
      ['rejected', "Invalid value for 'a': seven does not match expected schema type 'integer'."],
      ['rejected', null],
    ]);
    expect(calls[0]?.rejection).toBe(
      'The call was not made: the run ends because of another call of this answer.',
    );
    expect(calls[2]?.rejection).toMatch(/^Tool not found/);
  });
});
