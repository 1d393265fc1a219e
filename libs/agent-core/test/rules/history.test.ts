import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { checkCalls } from '../../src/rules/check.ts';
import { keptHistory, NO_HISTORY, withCalls } from '../../src/rules/history.ts';
import { allowedTools, mustForce, uncalledRequired } from '../../src/rules/solver.ts';
import {
  after,
  child,
  conditional,
  first,
  makeRules,
  maxCount,
  parent,
  required,
  terminal,
} from './rules.ts';

describe('history', () => {
  const call = (tool_name: string, carried_out = true) => ({
    tool_name,
    result: `of ${tool_name}`,
    carried_out,
  });

  test('begins empty and grows by the calls carried out', () => {
    expect(withCalls(NO_HISTORY, [])).toBe(NO_HISTORY);
    const once = withCalls(NO_HISTORY, [call('a'), call('x', false)]);
    expect(once).toEqual({ calls: ['a'], last_result: 'of a' });
    expect(withCalls(once, [call('x', false)])).toBe(once);
    expect(withCalls(once, [call('b'), call('a')])).toEqual({
      calls: ['a', 'b', 'a'],
      last_result: 'of a',
    });
  });
});

describe('the kept history', () => {
  test('is the last call, and of each tool as many as its limit counts', () => {
    const rules = makeRules(maxCount('a', 2), conditional('b', { x: 'a' }));
    expect(keptHistory(rules, after(['a', 'c', 'a', 'a', 'c', 'b', 'c']))).toEqual({
      calls: ['a', 'a', 'b', 'c'],
      last_result: null,
    });
    expect(keptHistory(rules, after(['a', 'b'], 'x'))).toEqual({ calls: ['a', 'b'], last_result: 'x' });
    expect(keptHistory(rules, NO_HISTORY)).toEqual(NO_HISTORY);
  });

  test('gives the same verdicts as the whole history, however it was kept on the way', () => {
    const names = ['a', 'b', 'c'];
    const anyRules = fc.subarray([
      first('a'),
      child('a', 'b'),
      parent('b', 'c'),
      terminal('c'),
      required('b'),
      maxCount('a', 2),
      maxCount('a', 3),
      maxCount('c', 1),
      conditional('b', { ok: 'c' }, { default_child: 'a' }),
    ]);
    const anyCalls = fc.array(
      fc.record({
        tool_name: fc.constantFrom(...names),
        result: fc.constantFrom('ok', 'no'),
        carried_out: fc.boolean(),
      }),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(anyRules, anyCalls, (input, calls) => {
        const rules = makeRules(...input);
        const whole = withCalls(NO_HISTORY, calls);
        const kept = calls.reduce(
          (history, call) => keptHistory(rules, withCalls(history, [call])),
          NO_HISTORY,
        );
        expect(allowedTools(rules, kept, names)).toEqual(allowedTools(rules, whole, names));
        expect(mustForce(rules, kept)).toBe(mustForce(rules, whole));
        expect(uncalledRequired(rules, kept, names)).toEqual(uncalledRequired(rules, whole, names));
        expect(checkCalls(rules, kept, names, ['a', 'a', 'c'])).toEqual(
          checkCalls(rules, whole, names, ['a', 'a', 'c']),
        );
      }),
    );
  });
});
