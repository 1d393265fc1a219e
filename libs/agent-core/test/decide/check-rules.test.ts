import { expect, test } from 'vitest';
import { checkRulesFit } from '../../src/decide/check-rules.ts';
import { child, first, makeRules, terminal } from '../rules/rules.ts';
import { makeTool } from '../tools/tools.ts';

const tools = [
  makeTool('a', { type: 'object', properties: { n: { type: 'integer' } } }),
  makeTool('b', { type: 'object', properties: { label: { enum: ['x', 'y'] } } }),
];

test('rules that fit their tools pass, whatever they say of absent tools', () => {
  const rules = makeRules(first('a', { n: 1 }), terminal('zzz'), child('zzz', 'a'), {
    type: 'constrain_child_tools',
    tool_name: 'a',
    children: ['b', 'zzz'],
    child_arg_nodes: [{ name: 'b', args: { label: 'x' } }, { name: 'zzz', args: { q: 1 } }, { name: 'b' }],
  });
  expect(checkRulesFit(rules, tools)).toEqual([]);
  expect(checkRulesFit([], [])).toEqual([]);
});

test('a tool that must run first and is not attached is found before anything is paid', () => {
  expect(checkRulesFit(makeRules(terminal('a'), first('zzz')), tools)).toEqual([
    {
      path: '/tool_rules/1/tool_name',
      message: "The tool that must run first, 'zzz', is not attached; attach it or drop the rule.",
    },
  ]);
});

test('arguments that a tool does not take are named by their path', () => {
  const rules = makeRules(first('a', { n: 'one', m: 1 }), {
    type: 'constrain_child_tools',
    tool_name: 'a',
    children: ['b'],
    child_arg_nodes: [{ name: 'b', args: { label: 'z' } }],
  });
  expect(checkRulesFit(rules, tools, '/x')).toEqual([
    {
      path: '/x/0/args',
      message: "Invalid value for 'n': one does not match expected schema type 'integer'.",
    },
    { path: '/x/0/args', message: "Unknown argument 'm' for tool 'a'." },
    {
      path: '/x/1/child_arg_nodes/0/args',
      message: `Invalid value for 'label': z does not match expected schema type 'enum ["x","y"]'.`,
    },
  ]);
});
