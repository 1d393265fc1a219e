import { describe, expect, test } from 'vitest';
import { diffDefinitions, withoutSecrets, type McpDefinition } from '../../src/index.ts';
import { canonicalJson, definitionText } from '../../src/tools/mcp-definition.ts';

const LOOK: McpDefinition = {
  name: 'look',
  title: null,
  description: 'Looks.',
  input_schema: { type: 'object', properties: { 'a/b': { type: 'string' } }, required: ['a/b'] },
  output_schema: null,
  annotations: { readOnlyHint: true },
};

describe('differences', () => {
  test('of equal definitions are none, whatever the order of keys', () => {
    const other = {
      ...LOOK,
      input_schema: { required: ['a/b'], properties: { 'a/b': { type: 'string' } }, type: 'object' },
    };
    expect(diffDefinitions(LOOK, other)).toEqual([]);
    expect(definitionText(other)).toBe(definitionText(LOOK));
  });

  test('stand at the deepest place, with what is there', () => {
    const other: McpDefinition = {
      ...LOOK,
      description: 'Looks closely.',
      input_schema: {
        type: 'object',
        properties: { 'a/b': { type: 'number' }, c: { type: 'string' } },
        required: ['a/b', 'c'],
      },
      annotations: null,
    };
    expect(diffDefinitions(LOOK, other)).toEqual([
      { path: '/description', approved: 'Looks.', offered: 'Looks closely.' },
      { path: '/input_schema/properties/a~1b/type', approved: 'string', offered: 'number' },
      { path: '/input_schema/properties/c', approved: undefined, offered: { type: 'string' } },
      { path: '/input_schema/required', approved: ['a/b'], offered: ['a/b', 'c'] },
      { path: '/annotations', approved: { readOnlyHint: true }, offered: null },
    ]);
  });

  test('are at most 100', () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`p${index}`, {}]));
    const other = { ...LOOK, input_schema: { properties: many } };
    expect(diffDefinitions(LOOK, other)).toHaveLength(100);
  });

  test('see a key that every object inherits', () => {
    const other = { ...LOOK, annotations: { readOnlyHint: true, constructor: 'x' } };
    expect(diffDefinitions(LOOK, other)).toEqual([
      { path: '/annotations/constructor', approved: undefined, offered: 'x' },
    ]);
  });
});

test('equal values have one canonical text, also with the key __proto__', () => {
  const one = JSON.parse('{"b":1,"__proto__":{"z":1,"a":[{"d":1,"c":2}]}}') as { b: number };
  expect(canonicalJson(one)).toBe('{"__proto__":{"a":[{"c":2,"d":1}],"z":1},"b":1}');
});

test('a definition that nests too deep has no text', () => {
  let deep: McpDefinition['input_schema'] = {};
  for (let depth = 0; depth < 200; depth++) deep = { items: deep };
  expect(() => definitionText({ ...LOOK, input_schema: deep })).toThrow(RangeError);
});

test('secrets are replaced by their names, longer ones first', () => {
  const secrets = { A: 'key', B: 'key-and-more', NONE: '', QUOTED: 'a"b' };
  expect(withoutSecrets('key-and-more, key, "a\\"b" and a"b', secrets)).toBe(
    '[secret B], [secret A], "[secret QUOTED]" and [secret QUOTED]',
  );
});
