import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { NO_HISTORY, type RuleHistory } from '../../src/rules/history.ts';
import {
  AUTOMATED_PREFIX,
  loopAfterCalls,
  loopAfterWords,
  REASKS_MAX,
  type DecidedCall,
  type LoopFacts,
} from '../../src/rules/loop.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import {
  after,
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

const call = (tool_name: string, rest: Partial<DecidedCall> = {}): DecidedCall => ({
  tool_name,
  result: 'ok',
  carried_out: true,
  ok: true,
  prefill_error: null,
  ...rest,
});

function decide(
  rules: readonly ToolRule[],
  calls: readonly DecidedCall[],
  { reasks = 0, ...rest }: Partial<LoopFacts> & { history?: RuleHistory; reasks?: number } = {},
) {
  const facts = {
    rules,
    available: ['a', 'b', 'c'],
    history: NO_HISTORY,
    step_number: 1,
    max_steps: 5,
    ...rest,
  };
  return calls.length === 0 ? loopAfterWords(facts, reasks) : loopAfterCalls(facts, calls);
}

test('after the caller denies a forced call the model may end in words, but not without the required tools', () => {
  for (const rules of [makeRules(first('a')), makeRules(child('b', 'a'))]) {
    const history = rules[0]?.type === 'run_first' ? NO_HISTORY : { calls: ['b'], last_result: null };
    expect(decide(rules, [], { history })).toMatchObject({ kind: 'continue' });
    expect(decide(rules, [], { history, denied: true })).toMatchObject({
      kind: 'stop',
      stop_reason: 'end_turn',
      error: null,
    });
    const owing = [...rules, ...makeRules(required('c'))];
    expect(decide(owing, [], { history, denied: true })).toMatchObject({
      kind: 'continue',
      reason: 'still to be called: c',
    });
  }
});

describe('after calls', () => {
  test('the results go back to the model', () => {
    expect(decide([], [call('a')])).toEqual({
      kind: 'continue',
      reason: 'results go back to the model',
      reask: null,
    });
  });

  test('a rule that demands to go on is named', () => {
    expect(decide(makeRules(goesOn('a')), [call('a')])).toMatchObject({
      kind: 'continue',
      reason: 'rule continues after a',
    });
  });

  test('a terminal tool ends the run', () => {
    expect(decide(makeRules(terminal('a')), [call('a')])).toMatchObject({
      kind: 'stop',
      stop_reason: 'tool_rule',
      error: null,
    });
  });

  test('terminal wins over continue, in whatever order they were called', () => {
    const rules = makeRules(terminal('a'), goesOn('b'), child('b', 'c'), child('a', 'b'));
    for (const calls of [
      [call('a'), call('b')],
      [call('b'), call('a')],
    ]) {
      expect(decide(rules, calls)).toMatchObject({ kind: 'stop', stop_reason: 'tool_rule' });
    }
  });

  test('a terminal tool that was refused ends nothing', () => {
    const refused = call('a', { carried_out: false });
    expect(decide(makeRules(terminal('a')), [refused])).toMatchObject({ kind: 'continue' });
  });

  test('a terminal tool that failed ends nothing: the model is told, and may call again', () => {
    expect(decide(makeRules(terminal('a')), [call('a', { ok: false })])).toMatchObject({ kind: 'continue' });
  });

  test('where no tool is left and none is due, the model may still end in words, and is stuck once it calls', () => {
    const rules = makeRules(maxCount('a', 1));
    const used = { available: ['a'], history: after(['a']) };
    expect(decide(rules, [call('a')], { available: ['a'] })).toMatchObject({ kind: 'continue' });
    expect(decide(rules, [], used)).toMatchObject({ stop_reason: 'end_turn' });
    expect(decide(rules, [call('a', { carried_out: false, ok: false })], used)).toMatchObject({
      stop_reason: 'no_valid_tools',
      error: "The tool rules allow no call after 'a'.",
    });
  });

  test('a terminal tool that comes too early goes on and names the missing tools', () => {
    const rules = makeRules(terminal('a'), required('b'), required('c'));
    expect(decide(rules, [call('a'), call('c')])).toEqual({
      kind: 'continue',
      reason: 'terminal tool a called before b',
      reask: `${AUTOMATED_PREFIX}ToolRuleViolated: You must call b at least once to exit the loop.`,
    });
    expect(decide(rules, [call('a')], { step_number: 5 })).toMatchObject({ stop_reason: 'max_steps' });
    expect(decide(rules, [call('a')], { history: after(['b', 'c']) })).toMatchObject({
      stop_reason: 'tool_rule',
    });
  });

  test('the step limit is exact', () => {
    expect(decide([], [call('a')], { step_number: 4 }).kind).toBe('continue');
    expect(decide([], [call('a')], { step_number: 5 })).toMatchObject({
      stop_reason: 'max_steps',
      error: null,
    });
    expect(decide(makeRules(terminal('a')), [call('a')], { step_number: 5 })).toMatchObject({
      stop_reason: 'tool_rule',
    });
  });

  test('when no tool may be called next the run ends, and no tool is opened', () => {
    const rules = makeRules(child('a', 'b'), maxCount('b', 1));
    expect(decide(rules, [call('a')], { history: after(['a', 'b']) })).toEqual({
      kind: 'stop',
      stop_reason: 'no_valid_tools',
      reason: 'the rules allow no tool',
      error: "The tool rules allow no call after 'a'.",
    });
    const strict = makeRules(conditional('a', { x: 'b' }, { require_output_mapping: true }));
    expect(decide(strict, [call('a', { result: 'y' })])).toMatchObject({ stop_reason: 'no_valid_tools' });
    expect(decide(strict, [call('a', { result: 'x' })])).toMatchObject({ kind: 'continue' });
  });

  test('no callable tool at the start, although the model tried, ends the run too', () => {
    const refused = call('a', { carried_out: false });
    expect(decide(makeRules(first('zzz')), [refused])).toMatchObject({
      stop_reason: 'no_valid_tools',
      error: 'The tool rules allow no call at the start.',
    });
  });

  test('a model without tools that makes a call is told, and goes on', () => {
    const refused = call('zzz', { carried_out: false });
    expect(decide(makeRules(terminal('a')), [refused], { available: [] })).toMatchObject({
      kind: 'continue',
    });
  });

  test("arguments of a rule that do not fit end the run, even on a terminal tool's call", () => {
    const misfit = call('b', { carried_out: false, prefill_error: "Unknown argument 'x' for tool 'b'." });
    expect(decide(makeRules(terminal('a')), [call('a'), misfit])).toEqual({
      kind: 'stop',
      stop_reason: 'invalid_request',
      reason: 'prefilled arguments do not fit',
      error: "The arguments that a tool rule fixes for 'b' do not fit it: Unknown argument 'x' for tool 'b'.",
    });
  });
});

describe('after an answer in words', () => {
  test('the run ends', () => {
    expect(decide([], [])).toMatchObject({ kind: 'stop', stop_reason: 'end_turn', error: null });
    expect(decide(makeRules(terminal('a'), goesOn('b'), parent('a', 'b')), [])).toMatchObject({
      stop_reason: 'end_turn',
    });
  });

  test('a required tool that was not called is asked for', () => {
    const rules = makeRules(required('b'), required('a'));
    expect(decide(rules, [])).toEqual({
      kind: 'continue',
      reason: 'still to be called: b, a',
      reask: `${AUTOMATED_PREFIX}ToolRuleViolated: You must call b, a at least once to exit the loop.`,
    });
    expect(decide(rules, [], { history: after(['a', 'b']) })).toMatchObject({ stop_reason: 'end_turn' });
  });

  test('on the last step a required tool does not matter', () => {
    expect(decide(makeRules(required('b')), [], { step_number: 5 })).toMatchObject({
      stop_reason: 'end_turn',
    });
  });

  test('a call that is due is asked for', () => {
    expect(decide(makeRules(first('a')), [])).toMatchObject({
      kind: 'continue',
      reask: `${AUTOMATED_PREFIX}ToolRuleViolated: Your next response must call a.`,
    });
    expect(decide(makeRules(child('a', 'b', 'c')), [], { history: after(['a']) })).toMatchObject({
      kind: 'continue',
      reask: `${AUTOMATED_PREFIX}ToolRuleViolated: Your next response must call one of these tools: b, c.`,
    });
  });

  test('a call that is due on the last step is never made', () => {
    expect(decide(makeRules(first('a')), [], { step_number: 5 })).toMatchObject({ stop_reason: 'max_steps' });
  });

  test('a call that is due and not allowed ends the run', () => {
    expect(decide(makeRules(child('a')), [], { history: after(['a']) })).toMatchObject({
      stop_reason: 'no_valid_tools',
      error: 'The tool rules demand a call and allow none.',
    });
  });

  test('a model that never obeys is given up', () => {
    const rules = makeRules(first('a'));
    expect(decide(rules, [], { reasks: REASKS_MAX - 1 }).kind).toBe('continue');
    expect(decide(rules, [], { reasks: REASKS_MAX })).toMatchObject({
      kind: 'stop',
      stop_reason: 'loop_detected',
      error: 'The model did not call a as it must, although asked 3 times.',
    });
  });
});

test('every run ends within its steps, whatever the rules and the model do', () => {
  const anyCalls = fc.array(
    fc.record({ name: fc.constantFrom('a', 'b', 'c', 'zzz'), carried_out: fc.boolean() }),
    { maxLength: 3 },
  );
  const anyRules = fc.subarray([
    first('a'),
    child('a', 'b'),
    parent('b', 'c'),
    terminal('c'),
    required('b'),
    maxCount('a', 1),
    goesOn('b'),
    conditional('b', { ok: 'c' }),
  ]);
  fc.assert(
    fc.property(anyRules, fc.array(anyCalls, { minLength: 5, maxLength: 5 }), (input, answers) => {
      const rules = makeRules(...input);
      const ends = answers.map((answer, index) =>
        decide(
          rules,
          answer.map(({ name, carried_out }) => call(name, { carried_out })),
          { step_number: index + 1 },
        ),
      );
      expect(ends.at(-1)?.kind).toBe('stop');
      for (const [index, end] of ends.entries()) {
        const called = answers[index] ?? [];
        if (end.kind === 'stop' && end.stop_reason === 'tool_rule')
          expect(called.some(({ name, carried_out }) => name === 'c' && carried_out)).toBe(true);
        if (end.kind === 'stop' && end.stop_reason === 'end_turn') expect(called).toEqual([]);
      }
    }),
  );
});
