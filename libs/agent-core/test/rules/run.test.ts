import { describe, expect, test } from 'vitest';
import type { ContentBlock } from '../../src/model/content.ts';
import { checkCalls } from '../../src/rules/check.ts';
import { callsOf, historyOf, type CallMessage } from '../../src/rules/history.ts';
import { countReasks, decideLoop } from '../../src/rules/loop.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import { allowedTools } from '../../src/rules/solver.ts';
import { child, conditional, first, goesOn, makeRules, maxCount, required, terminal } from './rules.ts';

/**
 * Takes a run through the answers of a model, each the tools that it calls (none: words), keeping nothing between two
 * steps but the messages and which calls were refused, as the store does. Says for each step what was allowed and what
 * came of it.
 */
function takeThrough(
  rules: readonly ToolRule[],
  available: readonly string[],
  answers: readonly (readonly string[])[],
  resultOf: (tool: string) => string = () => 'ok',
): readonly string[] {
  const messages: CallMessage[] = [{ role: 'user', content: [{ type: 'text', text: 'go' }] }];
  const refused = new Set<string>();
  const trace: string[] = [];
  for (const [index, names] of answers.entries()) {
    const history = historyOf(callsOf(messages, refused).flat());
    const allowed = allowedTools(rules, history, available);
    const verdicts = checkCalls(rules, history, available, names);
    const uses = names.map((name, place): ContentBlock => ({
      type: 'tool_use',
      id: `${index}-${place}`,
      name,
      input: {},
    }));
    const results = names.map((name, place): ContentBlock => {
      const violation = verdicts[place] ?? null;
      if (violation !== null) refused.add(`${index}-${place}`);
      return { type: 'tool_result', tool_use_id: `${index}-${place}`, content: violation ?? resultOf(name) };
    });
    const reasks = countReasks(messages);
    messages.push({
      role: 'assistant',
      content: names.length > 0 ? uses : [{ type: 'text', text: 'words' }],
    });
    if (names.length > 0) messages.push({ role: 'user', content: results });
    const decision = decideLoop({
      rules,
      available,
      history,
      calls:
        names.length === 0
          ? []
          : (callsOf(messages, refused).at(-1) ?? []).map((call) => ({ ...call, prefill_error: null })),
      step_number: index + 1,
      max_steps: 10,
      reasks,
    });
    const done = names.map((name, place) => (verdicts[place] === null ? name : `(${name})`)).join(' ');
    const end = decision.kind === 'stop' ? ` ► ${decision.stop_reason}` : '';
    trace.push(`[${allowed.join(' ')}] ${done === '' ? 'words' : done}${end}`);
    if (decision.kind === 'stop') return trace;
    if (decision.reask !== null)
      messages.push({ role: 'user', content: [{ type: 'text', text: decision.reask }] });
  }
  return trace;
}

describe('a run by rules', () => {
  test('goes through a pipeline of tools, whatever the model tries', () => {
    const rules = makeRules(
      first('store'),
      child('store', 'rethink'),
      goesOn('rethink'),
      child('rethink', 'rethink', 'finish'),
      terminal('finish'),
    );
    const tools = ['finish', 'rethink', 'store'];
    expect(
      takeThrough(rules, tools, [['rethink'], [], ['store'], ['finish'], ['rethink'], ['rethink', 'finish']]),
    ).toEqual([
      '[store] (rethink)',
      '[store] words',
      '[store] store',
      '[rethink] (finish)',
      '[rethink] rethink',
      '[finish rethink] rethink finish ► tool_rule',
    ]);
  });

  test('a limit holds over steps and within one, and refused calls use up nothing (B76)', () => {
    const rules = makeRules(maxCount('search', 3));
    expect(
      takeThrough(
        rules,
        ['search', 'note'],
        [['search'], ['search', 'search', 'search'], ['search'], ['note'], []],
      ),
    ).toEqual([
      '[search note] search',
      '[search note] search search (search)',
      '[note] (search)',
      '[note] note',
      '[note] words ► end_turn',
    ]);
  });

  test('a branch follows the result of the last tool (B28, B79b)', () => {
    const rules = makeRules(
      conditional('check', { true: 'ship', false: 'fix' }),
      goesOn('fix'),
      terminal('ship'),
    );
    let passes = 0;
    const resultOf = (tool: string) =>
      tool === 'check' ? (++passes > 1 ? '{"message":true}' : 'False') : 'ok';
    expect(
      takeThrough(
        rules,
        ['check', 'fix', 'ship'],
        [['check'], ['ship'], ['fix'], ['check'], ['ship']],
        resultOf,
      ),
    ).toEqual([
      '[check fix ship] check',
      '[fix] (ship)',
      '[fix] fix',
      '[check fix ship] check',
      '[ship] ship ► tool_rule',
    ]);
  });

  test('does not end before what is required was called', () => {
    const rules = makeRules(required('log'), terminal('done'));
    expect(takeThrough(rules, ['log', 'done'], [[], ['done'], ['log'], []])).toEqual([
      '[log done] words',
      '[log done] done',
      '[log done] log',
      '[log done] words ► end_turn',
    ]);
  });

  test('a model that never makes the call that is due is given up after three re-asks', () => {
    expect(takeThrough(makeRules(first('a')), ['a'], [[], [], [], [], []])).toEqual([
      '[a] words',
      '[a] words',
      '[a] words',
      '[a] words ► loop_detected',
    ]);
  });

  test('ends when the rules leave no tool (B79a)', () => {
    expect(takeThrough(makeRules(child('a', 'b'), maxCount('b', 1)), ['a', 'b'], [['b'], ['a']])).toEqual([
      '[a b] b',
      '[a] a ► no_valid_tools',
    ]);
  });
});
