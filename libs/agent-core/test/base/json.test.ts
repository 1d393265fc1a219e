import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  fromStorable,
  isJsonObject,
  measureJson,
  pointerTo,
  toStorable,
  toStorableText,
} from '../../src/base/json.ts';

/** Finds the escapes of a JSON text that Postgres' `json` functions refuse, escape by escape. */
function refusedEscapes(jsonText: string): readonly string[] {
  const escapes = jsonText.match(/\\(?:u[0-9a-fA-F]{4}|[^u])/g) ?? [];
  return escapes.filter((escape) => /^\\u(?:0000|[dD][89a-fA-F])/.test(escape));
}

/** Strings with every difficulty of JSON text. */
const oddString = fc
  .array(
    fc.constantFrom('a', '"', '\\', '\\u0000', '\u0000', '\ud800', '\udc00', '😀', '\n', '[', '{', 'u0000'),
  )
  .map((parts) => parts.join(''));
/** Content as a provider sends it: an array or object, printed with or without escapes. */
const contentText = fc
  .tuple(
    fc.oneof(
      fc.array(fc.oneof(oddString, fc.jsonValue())),
      fc.dictionary(oddString, fc.oneof(oddString, fc.jsonValue())),
    ),
    fc.boolean(),
  )
  .map(([value, escaped]) => {
    const text = JSON.stringify(value);
    // Providers may escape any character, in either case of the hex digits.
    return escaped
      ? text.replace(
          /[^\u0020-\u007e]/g,
          (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`,
        )
      : text;
  });

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** An empty list or object counts as two. */
function valuesOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  const members = Object.values(value);
  return members.length === 0 ? 2 : members.reduce((sum: number, member) => sum + valuesOf(member), 1);
}

describe('stored content', () => {
  test('comes back unchanged to the character', () => {
    fc.assert(
      fc.property(contentText, (text) => {
        expect(fromStorable(toStorable(text))).toBe(text);
      }),
    );
  });

  test('is JSON without an escaped NUL or surrogate, which Postgres cannot process', () => {
    fc.assert(
      fc.property(contentText, (text) => {
        const stored = toStorable(text);
        expect(() => JSON.parse(stored) as unknown).not.toThrow();
        expect(refusedEscapes(stored)).toEqual([]);
      }),
    );
  });

  test.each([
    ['plain text', '[{"type":"text","text":"hello"}]'],
    ['another escape', '["\\u00e9\\n"]'],
    ['a character that needs two units', '["😀"]'],
  ])('is stored as it is where it holds %s', (_what, text) => {
    expect(toStorable(text)).toBe(text);
  });

  test.each([
    ['an escaped NUL', '["\\u0000"]'],
    ['an escaped lone surrogate', '["\\uD800"]'],
    ['an escaped pair', '["\\ud83d\\ude00"]'],
  ])('is wrapped once where it holds %s', (_what, text) => {
    expect(toStorable(text)).toBe(JSON.stringify(text));
    expect(fromStorable(toStorable(text))).toBe(text);
  });
});

describe('measureJson', () => {
  const NO_END = { depth: 1_000, values: 1_000_000 };

  test('agrees with the parsed value, except that an empty list or object counts twice', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), oddString), (value) => {
        const expected = { depth: depthOf(value), values: valuesOf(value) };
        expect(measureJson(JSON.stringify(value), NO_END)).toEqual(expected);
        expect(measureJson(JSON.stringify(value, null, 2), NO_END)).toEqual(expected);
      }),
    );
  });

  test.each([
    ['1', 0, 1],
    ['"[{,"', 0, 1],
    ['[]', 1, 2],
    ['[1,2]', 1, 3],
    ['{"a":[{}]}', 3, 4],
    ['[[],[[]]]', 3, 6],
    ['["\\"[",[]]', 2, 4],
    ['["\\\\",[]]', 2, 4],
  ])('%s is %i deep and holds %i values', (text, depth, values) => {
    expect(measureJson(text, NO_END)).toEqual({ depth, values });
  });

  test('stops past either bound, so a hostile text is never read to its end', () => {
    expect(measureJson('['.repeat(1_000_000), { depth: 4, values: 100 })).toEqual({ depth: 5, values: 6 });
    for (const text of ['['.repeat(1_000_000), '{},'.repeat(1_000_000), ','.repeat(1_000_000)])
      expect(measureJson(text, { depth: 1_000, values: 100 }).values).toBe(101);
  });
});

describe('pointerTo', () => {
  const MARK = -987654321;

  test.each([
    [MARK, ''],
    [{ a: MARK }, '/a'],
    [[0, [], {}, MARK], '/3'],
    [{ a: { b: 'x', 'c,:': [1, { '"d\\': [MARK, 2] }] } }, '/a/c,:/1/"d\\/0'],
    [{ 'a/b': { 'm~n': MARK } }, '/a~1b/m~0n'],
    [{ a: ['":', { b: ',' }], c: MARK }, '/c'],
  ])('%j', (value, pointer) => {
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, 2)]) {
      expect(pointerTo(text, text.indexOf(String(MARK)))).toBe(pointer);
    }
  });
});

test('stored text holds no NUL and no lone surrogate, and loses nothing else', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), oddString, (text, odd) => {
      for (const given of [text, odd]) {
        const stored = toStorableText(given);
        expect(stored).not.toContain('\u0000');
        expect(stored.isWellFormed()).toBe(true);
        expect(toStorableText(stored)).toBe(stored);
        if (given.isWellFormed()) expect(stored).toBe(given.split('\u0000').join(''));
      }
    }),
  );
  expect(toStorableText('a\u0000b\ud800c😀')).toBe('ab\ufffdc😀');
});

test('only a plain object is a JSON object', () => {
  expect([{}, { a: 1 }].every(isJsonObject)).toBe(true);
  expect([null, undefined, [], 'a', 1, true].some(isJsonObject)).toBe(false);
});
