import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { elementsOf } from '../../src/wire/anthropic/scan.ts';
import { mayHoldThoughts, withoutThoughts } from '../../src/wire/anthropic/thoughts.ts';

const message = (content: string, role = 'assistant'): string => `{"role":"${role}","content":${content}}`;
const THOUGHT = '{ "type" : "thinking","thinking":"a \\"]\\" ","signature":"s" }';
const REDACTED = '{"type":"redacted_thinking","data":"d"}';
const CALL = '{"type":"tool_use","id":"t","name":"n","input":{"x":1.0,"y":["[",{}]}}';

describe('messages without their first thinking', () => {
  test('keep all else to the character', () => {
    expect(
      withoutThoughts(
        `[${message('[{"type":"text","text":"\\u00e9"}]', 'user')},${message(`[${THOUGHT}, ${CALL} ,${REDACTED}]`)}]`,
        2,
      ),
    ).toBe(`[${message('[{"type":"text","text":"\\u00e9"}]', 'user')},${message(`[${CALL}]`)}]`);
  });

  test('keep thinking of later messages, and messages without any', () => {
    const messages = `[${message(`[ ${CALL} ]`)},${message(`[${THOUGHT}]`)}]`;
    expect(withoutThoughts(messages, 1)).toBe(messages);
  });

  test('are never empty', () => {
    expect(withoutThoughts(`[${message(`[${THOUGHT}]`)}]`, 1)).toBe(
      `[${message('[{"type":"text","text":"(a thought)"}]')}]`,
    );
  });

  test('are examined where there is thinking, of either kind', () => {
    expect(mayHoldThoughts(message(`[${THOUGHT}]`))).toBe(true);
    expect(mayHoldThoughts(message(`[${REDACTED}]`))).toBe(true);
    expect(mayHoldThoughts(message(`[${CALL}]`))).toBe(false);
  });
});

describe('the elements of an array', () => {
  test('are its raw texts, whatever they hold', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.constantFrom('', ' ', '\n\t'), (values, space) => {
        const texts = values.map((value) => JSON.stringify(value));
        const array = `[${space}${texts.join(`${space},${space}`)}${space}]`;
        expect(elementsOf(array)).toEqual(texts);
      }),
    );
  });

  test.each(['["a', '[{"a":1', '[,]'])('of %j are an error', (text) => {
    expect(() => elementsOf(text)).toThrow(SyntaxError);
  });
});
