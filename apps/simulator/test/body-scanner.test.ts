import { describe, expect, test } from 'vitest';
import { createBodyScanner } from '../src/body-scanner.ts';
import type { ScannedItem } from '../src/body-scanner.ts';

const scanInPieces = (pieces: readonly Uint8Array[]): { items: ScannedItem[]; count: number } => {
  const items: ScannedItem[] = [];
  const scanner = createBodyScanner((item) => items.push(item));
  for (const piece of pieces) scanner.push(piece);
  return { items, count: scanner.end().count };
};

const body = Buffer.from(`{ "other" : [{"requests":[1]}, "x"],
 "requests" : [
  {"custom_id":"a-1","params":{"text":"quote \\" bracket ] brace } é 😀 \\u00e9","deep":{"requests":[{"custom_id":"no"}]}}},
  { "params" : {"n":[-0.5e+3,0,1E2,true,false,null]} , "custom_id" : "b\\u005f2" },
  {"custom_id":7,"params":[]},{"params":{},"extra":{"custom_id":"inner"}},
  "no object", 12, [], {}
 ], "tail" : -1 }`);

describe('the body scanner', () => {
  const whole = scanInPieces([body]);

  test('finds exactly the elements of the top-level list', () => {
    expect(whole.count).toBe(8);
    expect(whole.items.map(({ custom_id }) => custom_id)).toEqual([
      'a-1',
      'b_2',
      null,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    const parsed = (JSON.parse(body.toString()) as { requests: { params?: unknown }[] }).requests;
    for (const { index, params } of whole.items.slice(0, 2)) {
      const text = body.subarray(params?.offset, (params?.offset ?? 0) + (params?.length ?? 0)).toString();
      expect(JSON.parse(text)).toEqual(parsed[index]?.params);
    }
    expect(whole.items[2]?.params).toBeUndefined();
    expect(whole.items[3]?.unknown_key).toBe('extra');
    expect(whole.items.map(({ is_object }) => is_object)).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
      false,
      true,
    ]);
  });

  test('finds the same elements wherever the body is split', () => {
    for (let at = 0; at <= body.length; at++) {
      expect(scanInPieces([body.subarray(0, at), body.subarray(at)])).toEqual(whole);
    }
  });

  test('finds the same elements when the body arrives byte by byte', () => {
    expect(scanInPieces(Array.from(body, (_, at) => body.subarray(at, at + 1)))).toEqual(whole);
  });

  test.each([
    '',
    '{',
    '{"requests":[}',
    '{"requests":[{]}',
    '{"requests":[1,]}',
    '{"requests":[1 2]}',
    '{"requests" [1]}',
    '{"a":1,}',
    '{,}',
    "{'a':1}",
    '{"a":01}',
    '{"a":-}',
    '{"a":1.}',
    '{"a":1e}',
    '{"a":.5}',
    '{"a":tru}',
    '{"a":nul1}',
    '{"a":"\\x"}',
    '{"a":"\\u00g0"}',
    '{"a":"line\nbreak"}',
    '{"a":1}}',
    '{"a":1} x',
    '{"a":NaN}',
    '[1',
    '"open',
  ])('refuses %j, as JSON.parse does', (text) => {
    expect(() => JSON.parse(text) as unknown).toThrow(SyntaxError);
    for (let at = 0; at <= text.length; at++) {
      const bytes = Buffer.from(text);
      expect(() => scanInPieces([bytes.subarray(0, at), bytes.subarray(at)])).toThrow(SyntaxError);
    }
  });

  test.each([
    '{}',
    ' [1, -2.5e-7, "x", {"a":[]}] ',
    '0',
    '-0',
    '1e5',
    'true',
    'null',
    '"\\ud83d\\uDE00\\n"',
    '"\\\\ud83d"',
    '[[[]]]',
    '{"a":{}}',
  ])('accepts %j, as JSON.parse does', (text) => {
    JSON.parse(text);
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at++) scanInPieces([bytes.subarray(0, at), bytes.subarray(at)]);
  });

  test.each([
    ['"\\ud83d"', /^no low surrogate in string at byte 7$/],
    ['"\\ud83d\\n"', /^no low surrogate in string at byte 8$/],
    ['"\\uDBFFa"', /^no low surrogate in string at byte 7$/],
    ['"\\ud83d\\ud83d\\ude00"', /^invalid low surrogate in string at byte 7$/],
    ['"\\ud83d\\u0061"', /^invalid low surrogate in string at byte 7$/],
    ['{"\\ude00":1}', /^invalid high surrogate in string at byte 2$/],
  ])(
    'refuses half a surrogate pair as the provider does, though JSON.parse takes it: %s',
    (text, message) => {
      JSON.parse(text);
      const bytes = Buffer.from(text);
      for (let at = 0; at <= bytes.length; at++) {
        expect(() => scanInPieces([bytes.subarray(0, at), bytes.subarray(at)])).toThrow(message);
      }
    },
  );

  test('uses the last of two lists of the same name, like JSON.parse', () => {
    const { items, count } = scanInPieces([Buffer.from('{"requests":[1,2],"requests":[{"custom_id":"x"}]}')]);
    expect(count).toBe(1);
    expect(items.at(-1)).toMatchObject({ index: 0, custom_id: 'x' });
  });
});
