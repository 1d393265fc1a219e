import { expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { withoutLoneSurrogates } from '../../src/wire/anthropic/lone-surrogates.ts';

test.each([
  ['a low half before its high half', '"\\ude00\\ud83d"', '"\\ufffd\\ufffd"'],
  ['a half before a pair', '"\\ud83d\\uD83D\\uDE00"', '"\\ufffd\\uD83D\\uDE00"'],
  ['a half behind an escaped backslash', '"\\\\\\ud83d"', '"\\\\\\ufffd"'],
  ['a half in a key', '{"\\udfff":1}', '{"\\ufffd":1}'],
])('%s becomes a replacement character', (_name, json, expected) => {
  expect(withoutLoneSurrogates(json)).toBe(expected);
});

test.each([
  '"\\\\ud83d"',
  '"\\\\\\\\uDE00"',
  '"\\ud7ff\\ue000\\n\\u0000"',
  '["\\ud83d\\ude00", 1.0e2, "😀"]',
])('text without half a pair stays to the character: %s', (json) => {
  expect(withoutLoneSurrogates(json)).toBe(json);
});

test('any text keeps its meaning and byte length, except for lone halves of pairs', () => {
  const unit = fc.constantFrom('a', '\\', 'u', '"', 'd83d', '\n', '\0', '\ud83d', '\ude00', '😀', '\ufffd');
  fc.assert(
    fc.property(fc.string({ unit }), (text) => {
      const json = JSON.stringify([text, { [text]: text }]);
      const sent = withoutLoneSurrogates(json);
      expect(JSON.parse(sent)).toEqual([text.toWellFormed(), { [text.toWellFormed()]: text.toWellFormed() }]);
      expect(Buffer.byteLength(sent)).toBe(Buffer.byteLength(json));
    }),
  );
});
