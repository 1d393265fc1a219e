import { expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  codePointLength,
  expandTabs,
  findOccurrences,
  lineNumbersOf,
  replaceExpandedSpan,
} from '../../src/memory/text.ts';

const text = fc.string({
  unit: fc.constantFrom('a', 'b', '\t', '\n', '\r', ' ', '😀', '\ud800', '\udc00'),
  maxLength: 20,
});

test('codePointLength counts as the string iterator does', () => {
  fc.assert(
    fc.property(text, (value) => {
      expect(codePointLength(value)).toBe(Array.from(value).length);
    }),
  );
});

test('expandTabs leaves no tab and aligns to columns of eight', () => {
  expect(expandTabs('a\tb\n\tc\r12345678\td😀\te')).toBe('a       b\n        c\r12345678        d😀      e');
  fc.assert(
    fc.property(text, (value) => {
      expect(expandTabs(value)).not.toContain('\t');
    }),
  );
});

test('replacing a span of the expanded text equals replacing it there, once expanded', () => {
  fc.assert(
    fc.property(text, fc.nat(), fc.nat(), (value, a, b) => {
      const expanded = expandTabs(value);
      fc.pre(expanded.length > 0);
      const from = a % expanded.length;
      const to = from + 1 + (b % (expanded.length - from));
      const replaced = replaceExpandedSpan(value, from, to, '|');
      expect(expandTabs(replaced.slice(0, replaced.indexOf('|')))).toBe(expanded.slice(0, from));
      const rest = replaced.slice(replaced.indexOf('|') + 1).trimStart();
      expect(value.endsWith(rest)).toBe(true);
    }),
  );
});

test('findOccurrences finds overlapping places up to a maximum, and nothing for an empty part', () => {
  expect(findOccurrences('aaaa', 'aa', 10)).toEqual([0, 1, 2]);
  expect(findOccurrences('aaaa', 'aa', 2)).toEqual([0, 1]);
  expect(findOccurrences('aaaa', '', 2)).toEqual([]);
  expect(findOccurrences('', 'a', 2)).toEqual([]);
});

test('lineNumbersOf gives each line once, from 1', () => {
  expect(lineNumbersOf('a\nb\n\nc', [0, 1, 2, 4, 5])).toEqual([1, 2, 3, 4]);
  expect(lineNumbersOf('a', [])).toEqual([]);
});
