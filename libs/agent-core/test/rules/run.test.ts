import { describe, expect, test } from 'vitest';
import { decideStep } from '../../src/decide/decide-step.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { RETRY_POLICY_DEFAULT, type RunFacts } from '../../src/decide/decision.ts';
import { planCalls } from '../../src/decide/plan-calls.ts';
import { NO_TRAIL } from '../../src/decide/trail.ts';
import { toolUsesOf } from '../../src/model/content.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import { allowedTools } from '../../src/rules/solver.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { call as toolUse, keyOf, makeAnswer, makeRun, text } from '../decide/facts.ts';
import { makeTool } from '../tools/tools.ts';
import { child, conditional, first, goesOn, makeRules, maxCount, required, terminal } from './rules.ts';

const validate = createArgumentValidator();

/**
 * Takes a run through the answers of a model, each a list of called tools (none: words).
 * Only the run's row is kept between two steps, as in the store. Returns allowed tools and decision of each step.
 */
function takeThrough(
  rules: readonly ToolRule[],
  available: readonly string[],
  answers: readonly (readonly string[])[],
  resultOf: (tool: string) => string = () => 'ok',
): readonly string[] {
  const tools = available.map((name) => makeTool(name, { type: 'object' }));
  const toolPolicy = { ...NO_TOOL_POLICY, rules, available, tools };
  const trace: string[] = [];
  let run: RunFacts = makeRun();
  for (const [index, names] of answers.entries()) {
    const { history } = run.trail ?? NO_TRAIL;
    const allowed = allowedTools(rules, history, available);
    const content =
      names.length === 0 ? [text('words')] : names.map((name, place) => toolUse(`${index}-${place}`, name));
    const answer = makeAnswer(names.length === 0 ? 'end_turn' : 'tool_use', content);
    const planned = planCalls(toolUsesOf(content), toolPolicy, history, validate);
    const calls = planned.map((plan) => ({
      planned: plan,
      outcome: plan.rejection === null ? { ok: true, result: resultOf(plan.tool_name) } : null,
    }));
    const facts = { run, key: keyOf(run), retry: RETRY_POLICY_DEFAULT, toolPolicy, calls };
    const decision = decideStep(facts, { kind: 'answered', answer });
    if (decision.kind === 'refuse') throw new Error('The answer was refused.');
    const move = decision.run;
    const done = planned
      .map(({ kind, tool_name }) => (kind === 'rejected' ? `(${tool_name})` : tool_name))
      .join(' ');
    const end = 'stop_reason' in move ? ` ► ${move.stop_reason}` : '';
    trace.push(`[${allowed.join(' ')}] ${done === '' ? 'words' : done}${end}`);
    if (move.state !== 'ready') return trace;
    run = { ...run, step_number: move.step_number, trail: move.trail ?? run.trail };
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

  test('a limit holds over steps and within a step, and refused calls use up nothing', () => {
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

  test('a branch follows the result of the last tool', () => {
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

  test('does not end before the required tools were called', () => {
    const rules = makeRules(required('log'), terminal('done'));
    expect(takeThrough(rules, ['log', 'done'], [[], ['done'], ['log'], []])).toEqual([
      '[log done] words',
      '[log done] done',
      '[log done] log',
      '[log done] words ► end_turn',
    ]);
  });

  test('a model that never makes the due call is given up after three re-asks', () => {
    expect(takeThrough(makeRules(first('a')), ['a'], [[], [], [], [], []])).toEqual([
      '[a] words',
      '[a] words',
      '[a] words',
      '[a] words ► loop_detected',
    ]);
  });

  test('ends when the rules leave no tool', () => {
    expect(takeThrough(makeRules(child('a', 'b'), maxCount('b', 1)), ['a', 'b'], [['b'], ['a']])).toEqual([
      '[a b] b',
      '[a] a ► no_valid_tools',
    ]);
  });
});
