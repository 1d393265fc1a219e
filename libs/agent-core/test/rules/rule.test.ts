import { describe, expect, test } from 'vitest';
import { parseToolRules, rulesOf, toolRuleSchema } from '../../src/rules/rule.ts';
import { child, conditional, first, makeRules, maxCount, parent, terminal } from './rules.ts';

describe('reading tool rules', () => {
  test('every type is read, with all its fields', () => {
    const { rules, problems } = parseToolRules([
      { type: 'run_first', tool_name: 'a' },
      { type: 'exit_loop', tool_name: 'a', prompt_template: 'ignored' },
      { type: 'continue_loop', tool_name: 'a' },
      { type: 'constrain_child_tools', tool_name: 'a', children: ['b'] },
      { type: 'parent_last_tool', tool_name: 'a', children: ['b'] },
      { type: 'conditional', tool_name: 'a', child_output_mapping: { x: 'b' } },
      { type: 'max_count_per_step', tool_name: 'a', max_count_limit: 2 },
      { type: 'required_before_exit', tool_name: 'a' },
      { type: 'requires_approval', tool_name: 'a' },
    ]);
    expect(problems).toEqual([]);
    expect(rules).toEqual([
      { type: 'run_first', tool_name: 'a', prompt_template: null, args: null },
      { type: 'exit_loop', tool_name: 'a', prompt_template: 'ignored' },
      { type: 'continue_loop', tool_name: 'a', prompt_template: null },
      {
        type: 'constrain_child_tools',
        tool_name: 'a',
        prompt_template: null,
        children: ['b'],
        child_arg_nodes: null,
      },
      { type: 'parent_last_tool', tool_name: 'a', prompt_template: null, children: ['b'] },
      {
        type: 'conditional',
        tool_name: 'a',
        prompt_template: null,
        child_output_mapping: { x: 'b' },
        default_child: null,
        require_output_mapping: false,
      },
      { type: 'max_count_per_step', tool_name: 'a', prompt_template: null, max_count_limit: 2 },
      { type: 'required_before_exit', tool_name: 'a', prompt_template: null },
      { type: 'requires_approval', tool_name: 'a', prompt_template: null },
    ]);
  });

  test('a parsed rule parses again as the same', () => {
    const rules = makeRules(first('a', { x: 1 }), child('a', 'b'), conditional('a', { '1': 'b' }));
    expect(parseToolRules(rules)).toEqual({ rules, given: rules, problems: [] });
  });

  test.each<[string, unknown, string, RegExp]>([
    ['an unknown type', { type: 'run_second', tool_name: 'a' }, '/tool_rules/0/type', /./],
    ['a missing tool', { type: 'exit_loop' }, '/tool_rules/0/tool_name', /./],
    ['no object', 'exit_loop', '/tool_rules/0', /./],
    [
      'missing children',
      { type: 'constrain_child_tools', tool_name: 'a' },
      '/tool_rules/0/children',
      /array/,
    ],
    [
      'arguments for a tool that is no child',
      { ...child('a', 'b'), child_arg_nodes: [{ name: 'b' }, { name: 'c', args: {} }] },
      '/tool_rules/0/child_arg_nodes/1/name',
      /'c' is not one of the children/,
    ],
    [
      'an empty mapping',
      conditional('a', {}),
      '/tool_rules/0/child_output_mapping',
      /must name at least one output/,
    ],
    ['a limit of none', maxCount('a', 0), '/tool_rules/0/max_count_limit', />=1/],
  ])('names the field of %s', (_what, rule, path, message) => {
    const { rules, problems } = parseToolRules([rule]);
    expect(rules).toEqual([]);
    expect(problems[0]?.path).toBe(path);
    expect(problems[0]?.message).toMatch(message);
  });

  const many = Array.from({ length: 501 }, (_, index) => `tool_${index}`);
  const nodes = many.map((name) => ({ name }));
  test.each<[string, Record<string, unknown>, string]>([
    ['children', child('a', ...many), 'children'],
    ['allowed parents', parent('a', ...many), 'children'],
    ['arguments', { ...child('a', 'b'), child_arg_nodes: nodes }, 'child_arg_nodes'],
    [
      'outputs',
      conditional('a', Object.fromEntries(many.map((name) => [name, 'b']))),
      'child_output_mapping',
    ],
  ])('a caller may name 500 %s, and stored rules may name more', (_what, rule, field) => {
    const { error } = toolRuleSchema.safeParse(rule);
    expect(error?.issues).toMatchObject([{ path: [field], message: expect.stringContaining('<=500') }]);
    const stored = field === 'child_arg_nodes' ? { ...rule, children: many } : rule;
    expect(parseToolRules([stored]).problems).toEqual([]);
  });

  test.each<[string, Record<string, unknown>, (string | number)[]]>([
    ['a rule', { ...first('a'), arguments: { x: 1 } }, []],
    [
      'the arguments of a rule',
      { ...child('a', 'b'), child_arg_nodes: [{ name: 'b', arguments: { x: 1 } }] },
      ['child_arg_nodes', 0],
    ],
  ])('a caller may not misspell a field of %s, and stored rules may hold more', (_what, rule, path) => {
    const { error } = toolRuleSchema.safeParse(rule);
    expect(error?.issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['arguments'], path }]);
    const { rules, problems } = parseToolRules([rule]);
    expect([problems, JSON.stringify(rules).includes('arguments')]).toEqual([[], false]);
  });

  test('the path of a problem begins at the given prefix', () => {
    expect(parseToolRules([terminal('a'), {}], '/agents/3/rules').problems[0]?.path).toBe(
      '/agents/3/rules/1/type',
    );
  });

  test('equal rules are kept once', () => {
    const twice = [
      terminal('a'),
      terminal('a'),
      { ...terminal('a'), prompt_template: 'x' },
      child('a', 'b', 'c'),
      child('a', 'c', 'b'),
      parent('a', 'b', 'c'),
      parent('a', 'c', 'b'),
      conditional('a', { x: 'b', y: 'c' }),
      conditional('a', { y: 'c', x: 'b' }),
      maxCount('a', 1),
      maxCount('a', 1),
      first('a'),
      first('a'),
    ];
    expect(parseToolRules(twice).given).toHaveLength(twice.length);
    expect(makeRules(...twice).map((rule) => rule.type)).toEqual([
      'exit_loop',
      'constrain_child_tools',
      'parent_last_tool',
      'conditional',
      'max_count_per_step',
      'run_first',
    ]);
  });

  test('rules that differ in anything relevant are all kept', () => {
    const different = [
      maxCount('a', 1),
      maxCount('a', 2),
      child('a', 'b'),
      child('a', 'c'),
      child('b', 'c'),
      conditional('a', { x: 'b' }),
      conditional('a', { x: 'b' }, { default_child: 'c' }),
      conditional('a', { x: 'b' }, { require_output_mapping: true }),
      first('a'),
      first('a', { x: 1 }),
      { ...child('a', 'b'), child_arg_nodes: [{ name: 'b', args: { x: 1 } }] },
    ];
    expect(makeRules(...different)).toHaveLength(different.length);
  });

  test('rulesOf gives the rules of a type, in order', () => {
    const rules = makeRules(maxCount('a', 1), terminal('b'), maxCount('b', 2));
    expect(rulesOf(rules, 'max_count_per_step').map((rule) => rule.tool_name)).toEqual(['a', 'b']);
  });
});
