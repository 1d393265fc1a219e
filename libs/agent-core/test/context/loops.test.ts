import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  callFingerprint,
  detectLoop as detectLoopIn,
  LOOP_POLICY_DEFAULT,
  NO_STEPS,
  withStep,
  type LoopCall,
  type LoopPolicy,
} from '../../src/context/loops.ts';

/** Judges steps as the store does: each is added to the earlier prints. */
function detectLoop(steps: readonly (readonly LoopCall[])[], policy?: LoopPolicy) {
  return detectLoopIn(
    steps.reduce((prints, calls) => withStep(prints, calls), NO_STEPS),
    policy,
  );
}

const call = (tool_name: string, result: string | null = 'same', rest: Partial<LoopCall> = {}): LoopCall => ({
  tool_name,
  input: {},
  result,
  is_error: false,
  ...rest,
});
/** Makes steps of a single call each, by the letters of their tools. */
const steps = (letters: string): readonly (readonly LoopCall[])[] =>
  [...letters].map((letter) => [call(letter)]);

describe('a loop', () => {
  test('is the same step again and again', () => {
    expect(detectLoop(steps('aaaa'))).toBeNull();
    expect(detectLoop(steps('xaaaaa'))).toEqual({ kind: 'loop', cycle_len: 1, repeats: 5 });
  });

  test('is a cycle of steps', () => {
    expect(detectLoop(steps('abababab'))).toBeNull();
    expect(detectLoop(steps('xababababab'))).toEqual({ kind: 'loop', cycle_len: 2, repeats: 5 });
    expect(detectLoop(steps('abcdabcdabcd'), { ...LOOP_POLICY_DEFAULT, repeats_max: 2 })).toEqual({
      kind: 'loop',
      cycle_len: 4,
      repeats: 3,
    });
    expect(
      detectLoop(steps('abcdeabcdeabcde'), { ...LOOP_POLICY_DEFAULT, repeats_max: 2, stalled_steps_max: 99 }),
    ).toBeNull();
  });

  test('is over with the first different step', () => {
    expect(detectLoop(steps('aaaaaab'))).toBeNull();
    expect(detectLoop([])).toBeNull();
  });

  test('compares all calls of a step', () => {
    const both = [call('a'), call('b')];
    expect(detectLoop([both, both, both, both, both])).toMatchObject({ kind: 'loop', cycle_len: 1 });
    expect(detectLoop([both, both, both, both, [call('a')]])).toBeNull();
  });

  test('is not detected where the policy turns it off', () => {
    expect(
      detectLoop(steps('aaaaaaaaaa'), { repeats_max: 0, cycle_len_max: 4, stalled_steps_max: 0 }),
    ).toBeNull();
  });
});

describe('a call', () => {
  test('is the same whatever the order of its arguments and the space around them', () => {
    const one = call('a', ' ok\n', { input: { x: 1, y: { p: ' q ', r: [1, { b: 1, a: 2 }] } } });
    const other = call('a', 'ok', { input: { y: { r: [1, { a: 2, b: 1 }], p: 'q' }, x: 1 } });
    expect(callFingerprint(one)).toBe(callFingerprint(other));
  });

  test('is the same whatever the order of its arguments, however many there are', () => {
    const names = fc.uniqueArray(fc.string(), { maxLength: 40 });
    fc.assert(
      fc.property(names, fc.func(fc.integer()), (own, order) => {
        const inputOf = (sorted: readonly string[]) =>
          Object.fromEntries(sorted.map((name) => [name, name.length]));
        const shuffled = own.toSorted((a, b) => order(a) - order(b));
        const one = callFingerprint(call('a', 'ok', { input: inputOf(own) }));
        expect(callFingerprint(call('a', 'ok', { input: inputOf(shuffled) }))).toBe(one);
      }),
    );
  });

  test('differs by tool, argument, result or end', () => {
    const different = [
      call('a'),
      call('b'),
      call('a', 'other'),
      call('a', null),
      call('a', 'same', { is_error: true }),
      call('a', 'same', { input: { x: 1 } }),
      call('a', 'same', { input: { x: '1' } }),
      call('a', 'same', { input: { x: [1, 2] } }),
      call('a', 'same', { input: { x: [2, 1] } }),
    ].map(callFingerprint);
    expect(new Set(different).size).toBe(different.length);
  });

  test('of different texts has different prints', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        fc.pre(a.trim() !== b.trim());
        expect(callFingerprint(call('x', a))).not.toBe(callFingerprint(call('x', b)));
      }),
    );
  });
});

describe('a stall', () => {
  const policy = { ...LOOP_POLICY_DEFAULT, stalled_steps_max: 2 };
  const failing = (number: number) => [call('a', `error ${number}`, { is_error: true, input: { number } })];

  test('is a row of steps that all failed, each in its own way', () => {
    expect(detectLoop([[call('a')], failing(1), failing(2)], policy)).toBeNull();
    expect(detectLoop([[call('a')], failing(1), failing(2), failing(3)], policy)).toEqual({
      kind: 'stall',
      steps: 3,
    });
  });

  test('is a row of known results, whatever the arguments', () => {
    const asked = (number: number) => [call('search', 'No results found.', { input: { number } })];
    expect(detectLoop([asked(1), asked(2), asked(3)], policy)).toBeNull();
    expect(detectLoop([asked(1), asked(2), asked(3), asked(4)], policy)).toEqual({ kind: 'stall', steps: 3 });
  });

  test('is no row of calls with different effects, whatever their results', () => {
    const sent = (number: number) => [call('send', 'ok', { input: { number }, acts: true })];
    expect(detectLoop([1, 2, 3, 4, 5, 6].map(sent), policy)).toBeNull();
    expect(detectLoop([1, 2, 1, 2, 1].map(sent), policy)).toEqual({ kind: 'stall', steps: 3 });
  });

  test('ends with anything new, an open call included', () => {
    expect(detectLoop([failing(1), failing(2), failing(3), [call('a', 'new')]], policy)).toBeNull();
    expect(detectLoop([failing(1), failing(2), failing(3), [call('a', null)]], policy)).toBeNull();
    expect(detectLoop([failing(1), failing(2), [...failing(3), call('b', 'new')]], policy)).toBeNull();
  });

  test('is not detected where the policy turns it off', () => {
    expect(detectLoop([1, 2, 3, 4, 5].map(failing), { ...policy, stalled_steps_max: 0 })).toBeNull();
  });
});

test('prints are stored with runs, so they are the same in every release', () => {
  const looked = call('look_up', ' paid\n', {
    input: { customer: ' c-1 ', depth: 2, tags: ['a', null, { z: 1.5, b: true }] },
  });
  const sent = call('send', null, { input: '"é\ud800', acts: true });
  expect(withStep(withStep(NO_STEPS, [looked, sent]), [looked])).toEqual({
    prints: ['aa8a912936680e17', '1e93cefb760d2d9f'],
    seen: ['7fb6fa0282dbf994', '68415fadbfbd2eda'],
    stalled: 1,
  });
});

test('the stored prints are bounded, however long the run', () => {
  const many = Array.from({ length: 200 }, (_, number) => [
    call('a', `result ${number}`, { input: { number } }),
  ]);
  const kept = many.reduce((prints, calls) => withStep(prints, calls), NO_STEPS);
  expect(kept.prints).toHaveLength(24);
  expect(kept.seen).toHaveLength(64);
  expect(JSON.stringify(kept).length).toBeLessThan(2_000);
  expect(withStep(kept, [])).toBe(kept);
});

test('a run whose every step brings something new is never stopped', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string(), { maxLength: 40, selector: (text) => text.trim() }),
      (results) => {
        expect(detectLoop(results.map((result) => [call('a', result)]))).toBeNull();
      },
    ),
  );
});
