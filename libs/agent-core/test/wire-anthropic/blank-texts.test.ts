import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { mayHoldBlankText, withoutBlankTexts } from '../../src/wire/anthropic/blank-texts.ts';

const message = (content: string, role = 'assistant'): string => `{"role":"${role}","content":${content}}`;
const SAID = '{"type":"text","text":"\\u00e9 1.0"}';
const CALL = '{"type":"tool_use","id":"t","name":"n","input":{"x":1.0,"text":"","y":["[",{"text":" "}]}}';
const BLANKS = [
  '{"type":"text","text":""}',
  '{ "text" : "" , "type" : "text" }',
  '{"type":"text","text":" \\n\\t\\r\\f"}',
  '{"type":"text","text":"\\u0020\\u00A0\\u2028","citations":null}',
];

describe('messages without their blank texts', () => {
  test('keep all else to the character', () => {
    const kept = message(`[ ${CALL} ]`);
    for (const blank of BLANKS) {
      expect(mayHoldBlankText(message(`[${blank}]`))).toBe(true);
      expect(
        withoutBlankTexts(`[${message(`[${SAID}, ${blank}]`)},${kept},${message(`[${blank},${CALL}]`)}]`),
      ).toBe(`[${message(`[${SAID}]`)},${kept},${message(`[${CALL}]`)}]`);
    }
  });

  test('keep texts of escaped characters that are not blank', () => {
    const messages = `[${message('[{"type":"text","text":"\\u00e9\\n"}]', 'user')}]`;
    expect(withoutBlankTexts(messages)).toBe(messages);
  });

  test('are never empty', () => {
    expect(withoutBlankTexts(`[${message(`[${BLANKS.join()}]`)}]`)).toBe(
      `[${message('[{"type":"text","text":"(nothing)"}]')}]`,
    );
  });

  test('hold no blank text for a parser', () => {
    const block = fc.oneof(
      fc.record({
        type: fc.constant('text'),
        text: fc.constantFrom('', ' ', '\n', 'a', '"', '\u3000', '\\n'),
      }),
      fc.record({ type: fc.constant('tool_use'), input: fc.record({ text: fc.constant('') }) }),
    );
    const content = fc.array(block, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(content, { maxLength: 3 }), (contents) => {
        const json = JSON.stringify(contents.map((content) => ({ role: 'user', content })));
        const expected = contents.map((content) => {
          const left = content.filter((part) => !('text' in part) || part.text.trim() !== '');
          return { role: 'user', content: left.length > 0 ? left : [{ type: 'text', text: '(nothing)' }] };
        });
        expect(JSON.parse(withoutBlankTexts(json))).toEqual(expected);
        if (!mayHoldBlankText(json)) expect(withoutBlankTexts(json)).toBe(json);
      }),
    );
  });
});
