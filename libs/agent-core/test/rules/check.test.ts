import { describe, expect, test } from 'vitest';
import { checkCalls, violationText } from '../../src/rules/check.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import { rulePrompt, toolUsageRules } from '../../src/rules/prompts.ts';
import {
  after,
  approval,
  child,
  conditional,
  first,
  goesOn,
  makeRules,
  maxCount,
  parent,
  required,
  terminal,
} from './rules.ts';

const tools = ['a', 'b', 'c'];

describe('judging the calls of an answer', () => {
  test('allowed calls pass, others are answered with the valid tools and the violated rules', () => {
    const rules = makeRules(child('a', 'b'), maxCount('c', 1));
    expect(checkCalls(rules, after(['a']), tools, ['b', 'c'])).toEqual([
      null,
      '[ToolConstraintError] Cannot call c, valid tools include: b.\n** Hint: Possible rules that were violated:\n' +
        '\t- After using a, the next tool must be one of: b.\n\t- c: at most 1 use per response.',
    ]);
  });

  test('without a telling rule there is no hint', () => {
    expect(checkCalls(makeRules(first('a')), NO_HISTORY, tools, ['b'])).toEqual([
      '[ToolConstraintError] Cannot call b, valid tools include: a.',
    ]);
  });

  test('all calls are judged by the rules at the time of the request', () => {
    const rules = makeRules(first('a'), child('a', 'b'));
    const [a, b] = checkCalls(rules, NO_HISTORY, tools, ['a', 'b']);
    expect(a).toBeNull();
    expect(b).toContain('Cannot call b');
  });

  test('a limit counts the calls before it in the same answer', () => {
    const rules = makeRules(maxCount('a', 2));
    expect(checkCalls(rules, after(['a']), tools, ['a', 'b', 'a'])).toEqual([
      null,
      null,
      expect.stringContaining('Cannot call a, valid tools include: b, c.'),
    ]);
  });

  test('a refused call uses up nothing', () => {
    const rules = makeRules(maxCount('a', 1), parent('c', 'b'));
    expect(checkCalls(rules, NO_HISTORY, tools, ['b', 'a'])).toEqual([expect.any(String), null]);
  });

  test('no allowed tool is reported as such, and never opens all tools', () => {
    const rules = makeRules(conditional('a', { x: 'b' }, { require_output_mapping: true }));
    expect(checkCalls(rules, after(['a'], 'y'), tools, tools)).toEqual(
      tools.map((name) => expect.stringContaining(`Cannot call ${name}, valid tools include: none.`)),
    );
  });

  test('a tool that does not exist is not judged here', () => {
    expect(checkCalls(makeRules(child('a', 'b')), after(['a']), tools, ['zzz'])).toEqual([null]);
  });

  test('without rules everything passes', () => {
    expect(checkCalls([], NO_HISTORY, tools, ['a', 'a', 'c'])).toEqual([null, null, null]);
  });

  test('hints name only the rules of the called and the previous tool', () => {
    const rules = makeRules(child('a', 'b'), terminal('c'), goesOn('b'), approval('c'));
    expect(violationText(rules, 'c', ['b'], 'a')).not.toContain('After calling b');
    expect(violationText(rules, 'c', ['b'], null)).toContain('Calling c ends your response.');
  });
});

describe('the rules in the prompt', () => {
  test('each rule has its line, or none', () => {
    const lines = makeRules(
      child('a', 'b', 'c'),
      parent('a', 'b', 'c'),
      conditional('a', { x: 'b' }),
      terminal('a'),
      goesOn('a'),
      required('a'),
      maxCount('a', 1),
      maxCount('a', 2),
      first('a'),
      approval('a'),
      child('c'),
    ).map(rulePrompt);
    expect(lines).toEqual([
      'After using a, the next tool must be one of: b, c.',
      'b, c can be used only directly after a.',
      'The output of a determines which tool must be used next.',
      'Calling a ends your response.',
      'After calling a, your response must go on.',
      'a must be called before the conversation ends.',
      'a: at most 1 use per response.',
      'a: at most 2 uses per response.',
      null,
      null,
      'After using c, the next tool must be one of: no tool.',
    ]);
  });

  test('the section tells continue, child-based, parent and terminal rules, in this order', () => {
    const section = toolUsageRules(
      makeRules(
        terminal('a'),
        parent('a', 'b'),
        maxCount('a', 1),
        child('a', 'b'),
        required('a'),
        goesOn('a'),
        first('a'),
      ),
    );
    expect(section).toMatch(/^<tool_usage_rules>\n.+\n\n<tool_rule>\n/);
    expect(section.endsWith('\n</tool_rule>\n</tool_usage_rules>')).toBe(true);
    expect([...section.matchAll(/<tool_rule>\n(.+)\n<\/tool_rule>/g)].map((match) => match[1])).toEqual([
      'After calling a, your response must go on.',
      'a: at most 1 use per response.',
      'After using a, the next tool must be one of: b.',
      'b can be used only directly after a.',
      'Calling a ends your response.',
    ]);
  });

  test('rules that tell nothing make no section', () => {
    expect(toolUsageRules([])).toBe('');
    expect(toolUsageRules(makeRules(first('a'), required('a'), approval('b')))).toBe('');
  });
});
