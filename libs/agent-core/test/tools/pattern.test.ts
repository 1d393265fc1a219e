import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { compilePattern as compileWith, PATTERN_STATES_MAX } from '../../src/tools/pattern.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';

/** Compiles with a budget of its own. */
const compilePattern = (source: string) => compileWith(source, { states_left: PATTERN_STATES_MAX });

function native(source: string): RegExp {
  try {
    return new RegExp(source, 'u');
  } catch {
    return new RegExp(source);
  }
}

/** Well-formed patterns over a small alphabet. */
const { pattern } = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { maxDepth: 2, depthIdentifier: 'group' },
    fc.constantFrom(
      'a',
      'b',
      '-',
      '.',
      '\\d',
      '\\w',
      '[ab]',
      '[^a]',
      '\\b',
      '\\B',
      '^',
      '$',
      '\\u0061',
      '\\x62',
      '😀',
      'é',
      '\\p{L}',
    ),
    tie('pattern').map((inner) => `(?:${inner})`),
    tie('pattern').map((inner) => `(${inner})`),
    tie('pattern').map((inner) => `(?:(?=${inner}))`),
    tie('pattern').map((inner) => `(?:(?!${inner}))`),
  ),
  pattern: fc
    .array(
      fc.array(
        fc
          .tuple(tie('atom'), fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,}', '{0,2}', '*?'))
          .map(([atom, quantifier]) => (/^(?:\^|\$|\\b|\\B)$/.test(atom) ? atom : atom + quantifier)),
        { maxLength: 3 },
      ),
      { minLength: 1, maxLength: 2 },
    )
    .map((choices) => choices.map((pieces) => pieces.join('')).join('|')),
}));

// No astral characters here: V8 also starts in the middle of a surrogate pair, which the language does not.
const text = fc.string({ unit: fc.constantFrom('a', 'b', '-', '1', ' ', '\n', 'é'), maxLength: 10 });

test('a pattern finds the same as the native matcher', () => {
  fc.assert(
    fc.property(
      pattern.filter((source) => source.length <= 80),
      text,
      (source, value) => {
        expect(compilePattern(source).test(value)).toBe(native(source).test(value));
      },
    ),
    { numRuns: 1000 },
  );
});

describe('patterns of real schemas', () => {
  test.each([
    ['^[a-z0-9]+(?:-[a-z0-9]+)*$', ['a', 'a-b', 'abc-1-2'], ['', '-a', 'a--b', 'A']],
    [
      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
      ['a.b@c.de'],
      ['a..b@c.de', '.a@c.de', 'a@c'],
    ],
    ['^\\d{4}-\\d{2}-\\d{2}$', ['2026-11-20'], ['2026-11-2', '02026-11-20']],
    ['^[\\w-.]+$', ['a-b.c'], ['a b']],
    ['^\\-{2}x\\_$', ['--x_'], ['-x_']],
    ['^a{,2}]}$', ['a{,2}]}'], ['aa]}']],
    ['^(?<year>\\d+)$', ['12'], ['x']],
    ['^[\\]\\\\]+$', [']\\'], ['[']],
    ['^\\cJ\\u{1F600}\\uD83D\\uDE00$', ['\n😀😀'], ['\n😀']],
    ['^\\p{Lu}', ['É'], ['é']],
    ['', ['', 'x'], []],
    ['^.{1,4000}$', ['x'.repeat(4000)], ['x'.repeat(4001)]],
    ['^.[^a]$', ['😀😀'], ['😀', '😀a']],
    ['x{0}y', ['y'], ['x']],
  ])('%s', (source: string, matching: string[], other: string[]) => {
    const compiled = compilePattern(source);
    for (const value of matching) expect([value, compiled.test(value)]).toEqual([value, true]);
    for (const value of other) expect([value, compiled.test(value)]).toEqual([value, false]);
  });
});

describe('patterns that stop a backtracking matcher', () => {
  test.each([
    ['^(a+)+$'],
    ['^(a|a)*$'],
    ['^(a|aa)+$'],
    ['(a*)*b'],
    ['^(\\w+\\s?)*$'],
    ['a*a*a*a*a*b'],
    ['^(?:(?!b).)*$'],
  ])('%s is decided at once for a long text', (source) => {
    const decide = () => compilePattern(source).test(`${'a'.repeat(2000)}!`);
    expect(cpuMsOf(decide)).toBeLessThan(2000);
  });

  test('a test beyond its budget is an error, not a pause', () => {
    expect(() => compilePattern('^.{1,4000}$').test('a'.repeat(100_000))).toThrow(RangeError);
    expect(() => compilePattern('(?=a*b)c').test('a'.repeat(50_000))).toThrow(RangeError);
  });
});

describe('a budget', () => {
  test('is the total cost of all tests that share it', () => {
    const budget = { states_left: 1_000_000 };
    const one = compileWith('^(?:ab?)+$', budget);
    const other = compileWith('(.?){50}x', budget);
    const text = 'a'.repeat(2_000);
    expect(one.test(text)).toBe(true);
    expect(() => {
      for (let i = 0; i < 20; i++) other.test(text);
    }).toThrow(RangeError);
    expect(() => one.test(text)).toThrow(RangeError);
    budget.states_left = 1_000_000;
    expect(one.test(text)).toBe(true);
  });

  test('pays for the memory of tests too', () => {
    const budget = { states_left: PATTERN_STATES_MAX };
    const large = compileWith('^b.{1,4000}$', budget);
    const text = 'a'.repeat(5_000);
    let tests = 0;
    expect(() => {
      for (; tests < 1_000; tests++) large.test(text);
    }).toThrow(RangeError);
    expect(tests).toBeLessThan(100);
  });
});

describe('refused patterns', () => {
  test.each([
    ['(a)\\1', /back-references/],
    ['(?<n>a)\\k<n>', /back-references/],
    ['(?<=a)b', /look-behind/],
    ['(?<!a)b', /look-behind/],
    ['(?i:a)', /inline flags/],
    ['a{20000}', /too large/],
    ['(?:a{100}){101}', /too large/],
    ['(?:){1000000000}a{0,99999}', /too large/],
    ['(?:(?=a{9000})){5000}(?=a{9000})', /too large/],
    ['(', /Invalid regular expression/],
    ['[b-a]', /Invalid regular expression/],
  ])('%s', (source, message) => {
    expect(() => compilePattern(source)).toThrow(message);
  });

  test('a pattern of more than 2000 characters', () => {
    expect(() => compilePattern('a'.repeat(2001))).toThrow(/at most 2000/);
  });
});

test('distinct patterns have distinct names', () => {
  expect(String(compilePattern('a'))).not.toBe(String(compilePattern('b')));
});
