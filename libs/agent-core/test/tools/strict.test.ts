import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { MEMORY_TOOLS } from '../../src/memory/definitions.ts';
import type { Definition } from '../../src/model/definition.ts';
import { FINISH_TOOL } from '../../src/tools/finish.ts';
import { createSchemaCompiler } from '../../src/tools/schema-compiler.ts';
import { strictPartsOf } from '../../src/tools/strict-parts.ts';
import { strictSize } from '../../src/tools/strict-subset.ts';
import { anySchema } from './any-schema.ts';
import { makeTool as tool } from './tools.ts';

const closed = (
  properties: JsonObject,
  required: readonly string[] = Object.keys(properties),
): JsonObject => ({
  type: 'object',
  properties,
  required: [...required],
  additionalProperties: false,
});
const holding = (schema: Json): JsonObject => closed({ a: schema });

describe('strictSize', () => {
  test.each<[string, JsonObject, number, number]>([
    ['an empty object', closed({}), 0, 0],
    ['an object without properties', { type: 'object', additionalProperties: false }, 0, 0],
    ['scalars', closed({ s: { type: 'string' }, i: { type: 'integer' }, b: { type: 'boolean' } }), 0, 0],
    ['notes', holding({ type: 'number', title: 't', description: 'd', default: 1 }), 0, 0],
    ['optional properties', closed({ a: { type: 'string' }, b: { type: 'null' } }, []), 2, 0],
    ['nested optional properties', holding(closed({ b: { type: 'string' } }, [])), 1, 0],
    ['several types', holding({ type: ['string', 'null'] }), 0, 1],
    ['an anyOf', holding({ anyOf: [{ type: 'string' }, closed({})], description: 'd' }), 0, 1],
    ['a list', holding({ type: 'array', items: { type: 'string' }, minItems: 1 }), 0, 0],
    ['a format', holding({ type: 'string', format: 'date-time' }), 0, 0],
    ['listed values', closed({ a: { enum: ['x', 1, null] }, b: { type: 'integer', enum: [1] } }), 0, 0],
    ['a constant', holding({ const: 'x' }), 0, 0],
    [
      'references, each use of which counts',
      {
        ...closed({ a: { $ref: '#/$defs/d' }, b: { $ref: '#/$defs/d' } }),
        $defs: { d: closed({ c: { type: 'null' } }, []) },
      },
      3,
      0,
    ],
    [
      'old references',
      { ...holding({ $ref: '#/definitions/d' }), definitions: { d: { type: 'null' } } },
      0,
      0,
    ],
  ])('proves %s', (_name, schema, optional, unions) => {
    expect(strictSize(schema)).toEqual({ optional, unions });
  });

  test.each<[string, JsonObject]>([
    ['a schema that is no object', { type: 'string' }],
    ['no type', holding({ description: 'anything' })],
    ['true', holding(true)],
    ['an open object', { type: 'object', properties: {} }],
    ['an open object within', holding({ type: 'object' })],
    ['additionalProperties other than false', { ...closed({}), additionalProperties: { type: 'string' } }],
    ['a required property without schema', closed({}, ['a'])],
    ['a property key that tools may not have', closed({ 'ä ': { type: 'string' } })],
    ['a maximum', holding({ type: 'integer', maximum: 3 })],
    ['a length', holding({ type: 'string', maxLength: 3 })],
    ['a pattern', holding({ type: 'string', pattern: '^a$' })],
    ['an unknown format', holding({ type: 'string', format: 'regex' })],
    ['a format of a number', holding({ type: 'number', format: 'date' })],
    ['a list of anything', holding({ type: 'array' })],
    ['a tuple', holding({ type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'string' } })],
    ['two items', holding({ type: 'array', items: { type: 'string' }, minItems: 2 })],
    ['an enum of objects', holding({ enum: [{}] })],
    ['an empty enum', holding({ enum: [] })],
    ['an enum of another type', holding({ type: 'string', enum: [1] })],
    ['a fraction as integer', holding({ type: 'integer', const: 1.5 })],
    ['enum and const together', holding({ enum: ['a'], const: 'a' })],
    ['an unknown type', holding({ type: 'date' })],
    ['the same type twice', holding({ type: ['string', 'string'] })],
    ['no types', holding({ type: [] })],
    ['an empty anyOf', holding({ anyOf: [] })],
    ['an anyOf with a type beside it', holding({ type: 'string', anyOf: [{ type: 'string' }] })],
    ['oneOf', holding({ oneOf: [{ type: 'string' }] })],
    ['allOf', holding({ allOf: [{ type: 'string' }] })],
    ['not', holding({ type: 'string', not: { const: 'a' } })],
    ['a remote reference', holding({ $ref: 'https://example.com/a' })],
    ['a reference to nothing', holding({ $ref: '#/$defs/b' })],
    [
      'a reference with words beside it',
      { ...holding({ $ref: '#/$defs/d', title: 't' }), $defs: { d: { type: 'null' } } },
    ],
    [
      'a recursive schema',
      { ...holding({ $ref: '#/$defs/d' }), $defs: { d: holding({ $ref: '#/$defs/d' }) } },
    ],
    ['a reference to the root', holding({ $ref: '#' })],
    ['an unproven definition without use', { ...closed({}), $defs: { d: {} } }],
    ['definitions that are no object', { ...closed({}), $defs: [] }],
    ['definitions that are nested', holding({ ...closed({}), $defs: {} })],
    ['$schema', { ...closed({}), $schema: 'https://json-schema.org/draft/2020-12/schema' }],
    [
      'too many places',
      closed(Object.fromEntries(Array.from({ length: 301 }, (_, i) => [`a${i}`, { type: 'null' }]))),
    ],
    ['too many values', holding({ enum: Array.from({ length: 501 }, (_, i) => i) })],
  ])('proves nothing of %s', (_name, schema) => {
    expect(strictSize(schema)).toBeNull();
  });

  test('references that double do not take long', () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 60 }, (_, i) => [
        `d${i}`,
        i === 59
          ? { type: 'null' }
          : closed({ a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } }),
      ]),
    );
    expect(strictSize({ ...holding({ $ref: '#/$defs/d0' }), $defs })).toBeNull();
  });

  test('no proven schema holds a keyword that the provider refuses, or an open object', () => {
    let proven = 0;
    fc.assert(
      fc.property(anySchema, (schema) => {
        if (strictSize(schema) === null) return;
        proven++;
        expect(forbidden(schema)).toEqual([]);
        expect(createSchemaCompiler()(schema).ok).toBe(true);
      }),
      { numRuns: 3_000 },
    );
    expect(proven).toBeGreaterThan(100);
  });
});

/** Returns the members of a schema that the provider's page on structured outputs rules out. */
function forbidden(schema: Json): readonly string[] {
  if (Array.isArray(schema)) return schema.flatMap((part: Json) => forbidden(part));
  if (typeof schema !== 'object' || schema === null) return [];
  const {
    properties = {},
    $defs = {},
    default: _default,
    enum: listed,
    const: _const,
    ...rest
  } = schema as JsonObject;
  const { type, additionalProperties, minItems = 0, anyOf = [], items = null, format } = rest;
  const allowed = [
    'type',
    'required',
    'additionalProperties',
    'items',
    'minItems',
    'format',
    'anyOf',
    '$ref',
  ];
  return [
    ...Object.keys(rest).filter((keyword) => ![...allowed, 'description', 'title'].includes(keyword)),
    ...((type === 'object' || (Array.isArray(type) && type.includes('object'))) &&
    additionalProperties !== false
      ? ['open object']
      : []),
    ...(minItems === 0 || minItems === 1 ? [] : ['minItems']),
    ...(format === undefined || format === 'date' ? [] : ['format']),
    ...(Array.isArray(listed) && listed.some((value) => typeof value === 'object' && value !== null)
      ? ['enum']
      : []),
    ...[properties, $defs].flatMap((map) => Object.values(map as JsonObject).flatMap(forbidden)),
    ...forbidden(anyOf),
    ...forbidden(items),
  ];
}

describe('strictPartsOf', () => {
  const schema = closed({ ok: { type: 'boolean' } });
  const definition = (over: Partial<Definition> = {}) => ({
    tools: [],
    model: 'anthropic/claude-opus-5-5',
    model_settings: { max_output_tokens: 1, parallel_tool_calls: true, extra: {} },
    ...over,
  });
  const optional = (count: number) =>
    closed(Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, { type: 'string' }])), []);

  test('takes the proven tools, and no open one', () => {
    const tools = [tool('open', { type: 'object' }), tool('closed', schema)];
    expect(strictPartsOf(definition({ tools }))).toEqual({ tools: ['closed'], result_format: false });
    expect(strictPartsOf(definition({ tools: tools.slice(0, 1) }))).toBeNull();
  });

  test('gives the result the first place, and then the tools in their order while they fit', () => {
    const tools = [tool('a', optional(20)), tool('b', optional(6)), tool('c', optional(2))];
    expect(strictPartsOf(definition({ tools }))).toEqual({ tools: ['a', 'c'], result_format: false });
    const result_format = { schema: optional(5) };
    expect(strictPartsOf(definition({ tools, result_format }))).toEqual({
      tools: ['b', 'c'],
      result_format: true,
    });
  });

  test('takes the call that hands over a result in place of an output format', () => {
    const tools = [tool('a', optional(20)), FINISH_TOOL];
    const result_format = { schema: optional(5) };
    expect(strictPartsOf(definition({ tools, result_format }))).toEqual({
      tools: ['finish'],
      result_format: false,
    });
    const referring = { ...closed({ a: { $ref: '#/$defs/d' } }), $defs: { d: { type: 'null' } } };
    expect(strictPartsOf(definition({ tools, result_format: { schema: referring } }))?.tools).toEqual([
      'a',
      'finish',
    ]);
    // Without a schema `finish` takes any JSON.
    expect(strictPartsOf(definition({ tools }))).toEqual({ tools: ['a'], result_format: false });
  });

  test('counts tools and unions', () => {
    const many = Array.from({ length: 25 }, (_, i) => tool(`t${i}`, closed({})));
    expect(strictPartsOf(definition({ tools: many }))?.tools).toEqual(
      many.slice(0, 20).map(({ name }) => name),
    );
    const union = closed(
      Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`a${i}`, { type: ['null', 'string'] }])),
    );
    const tools = [tool('a', union), tool('b', union)];
    expect(strictPartsOf(definition({ tools }))?.tools).toEqual(['a']);
  });

  test('takes nothing for a model that does not enforce schemas, or beside an output format of the agent', () => {
    const typed = { tools: [tool('a', schema)], result_format: { schema } };
    expect(strictPartsOf(definition({ ...typed, model: 'anthropic/claude-sonnet-4-20250514' }))).toBeNull();
    for (const extra of [{ output_config: { format: {} } }, { output_config: 1 }, { output_format: {} }]) {
      const model_settings = { max_output_tokens: 1, parallel_tool_calls: true, extra };
      expect(strictPartsOf(definition({ ...typed, model_settings }))).toBeNull();
    }
    const model_settings = {
      max_output_tokens: 1,
      parallel_tool_calls: true,
      extra: { output_config: { effort: 'low' } },
    };
    expect(strictPartsOf(definition({ ...typed, model_settings }))).toEqual({
      tools: ['a'],
      result_format: true,
    });
  });

  test('every memory tool is proven', () => {
    expect(MEMORY_TOOLS.filter(({ input_schema }) => strictSize(input_schema) === null)).toEqual([]);
  });
});
