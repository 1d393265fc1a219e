import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { checkInputSchema, createArgumentValidator } from '../../src/tools/validate.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { makeTool } from './tools.ts';

const validate = createArgumentValidator();

function messageFor(schema: JsonObject, input: Json): string | null {
  const checked = validate(makeTool('x', schema), input);
  return checked.ok ? null : checked.message;
}

const note: JsonObject = {
  type: 'object',
  properties: {
    label: { type: 'string', minLength: 1 },
    y: { type: 'integer' },
    mode: { enum: ['add', 'set'] },
    day: { type: 'string', format: 'date' },
    slug: { type: 'string', pattern: '^[a-z]+(-[a-z]+)*$' },
    version: { const: 2 },
    tags: { type: 'array', items: { type: 'string' }, uniqueItems: true },
  },
  required: ['label', 'y'],
  additionalProperties: false,
};

describe('arguments that fit their schema', () => {
  test('come back unchanged, with nothing filled in or converted', () => {
    const input = {
      label: 'a',
      y: 1,
      mode: 'set',
      day: '2026-11-20',
      slug: 'a-b',
      tags: ['a', 'b'],
      version: 2,
    };
    const checked = validate(makeTool('x', note), input);
    expect(checked).toEqual({ ok: true, args: input });
    expect(checked.ok && checked.args).toBe(input);
  });
});

describe('the message names every field that is wrong', () => {
  test.each<[Json, string]>([
    [{ label: 1 }, "missing required property 'y'; /label must be string"],
    [{ label: 'a', y: '1' }, '/y must be integer'],
    [{ label: 'a', y: 1, mode: 'del' }, '/mode must be one of ["add","set"]'],
    [{ label: 'a', y: 1, version: 3 }, '/version must be 2'],
    [{ label: 'a', y: 1, z: 2 }, "unknown property 'z'"],
    [{ label: 'a', y: 1, day: 'today' }, '/day must match format "date"'],
    [{ label: 'a', y: 1, slug: 'A' }, '/slug must match pattern "^[a-z]+(-[a-z]+)*$"'],
    [{ label: 'a', y: 1, tags: ['a', 'a'] }, '/tags must not hold the same item twice'],
    [
      { label: '', y: 1, tags: [1, 2, 3, 4, 5, 6] },
      '/tags/2 must be string; /tags/3 must be string; and 2 more',
    ],
    [[], 'the input must be an object'],
    ['{}', 'the input must be an object'],
    [null, 'the input must be an object'],
  ])('%j', (input, expected) => {
    const message = messageFor(note, input);
    expect(message).toMatch(/^Invalid arguments for tool 'x': /);
    expect(message).toContain(expected);
  });

  test('a property of a nested object is named with its path', () => {
    const schema: JsonObject = {
      type: 'object',
      properties: { a: { type: 'object', required: ['b'], unevaluatedProperties: false } },
    };
    expect(messageFor(schema, { a: { c: 1 } })).toBe(
      "Invalid arguments for tool 'x': /a missing required property 'b'; /a unknown property 'c'",
    );
  });

  test('a long message is cut to well-formed text', () => {
    const message = messageFor(note, {
      label: 'a',
      y: 1,
      [`${'k'.repeat(942)}😀😀😀😀😀${'k'.repeat(99)}`]: 1,
    });
    expect(message?.length).toBe(1001);
    expect(message?.isWellFormed()).toBe(true);
  });
});

describe('inputs made to break out of the check', () => {
  test('a name from the prototype does not count as a given property', () => {
    expect(messageFor({ type: 'object', required: ['toString'] }, {})).toContain("'toString'");
  });

  test('__proto__ is a property like any other', () => {
    const input = JSON.parse('{"label":"a","y":1,"__proto__":{"z":1}}') as Json;
    expect(messageFor(note, input)).toContain("unknown property '__proto__'");
  });

  test('deep nesting and too many values are refused without a crash', () => {
    let deep: Json = 'x';
    for (let i = 0; i < 50_000; i++) deep = [deep];
    expect(messageFor({ type: 'object' }, { deep })).toContain('nested at most 128 deep');
    const many = Array.from({ length: 100_001 }, () => 0);
    expect(messageFor({ type: 'object' }, { many })).toContain('at most 100000 values');
  });

  test('the validator never throws and answers every input', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (input) => {
        const checked = validate(makeTool('x', note), input as Json);
        expect(checked.ok || checked.message.length > 0).toBe(true);
      }),
    );
  });
});

describe('schemas made to cost time', () => {
  const doubling = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [
      `d${i}`,
      i === 39 ? {} : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  ) as JsonObject;

  test.each<[string, JsonObject, Json, RegExp]>([
    [
      'references that double at each level',
      { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs: doubling },
      { a: 1 },
      /follows too many references/,
    ],
    ['a reference to itself', { type: 'object', $ref: '#' }, {}, /references|stack/],
    [
      'a pattern with exponential backtracking',
      { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } },
      { a: `${'a'.repeat(5000)}!` },
      /must match pattern/,
    ],
    [
      'a pattern and a text that are too large together',
      { type: 'object', properties: { a: { type: 'string', pattern: '^[a-z]{0,900}[0-9]{0,900}$' } } },
      { a: 'a'.repeat(100_000) },
      /too long to be checked/,
    ],
    [
      'a pattern and many texts that are too large together',
      { type: 'object', properties: { a: { items: { pattern: '^b.{1,4000}$' } } } },
      { a: Array.from({ length: 60 }, () => 'a'.repeat(5_000)) },
      /too long to be checked/,
    ],
    [
      'unique items',
      { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } },
      { a: [...Array.from({ length: 20_000 }, (_, i) => ({ i, j: [i] })), { j: [1], i: 1 }] },
      /same item twice/,
    ],
  ])('%s', (_name, schema, input, message) => {
    const look = () => expect(messageFor(schema, input)).toMatch(message);
    expect(cpuMsOf(look)).toBeLessThan(5000);
  });

  test('formats of long texts', () => {
    for (const format of [
      'email',
      'uri',
      'uri-reference',
      'uri-template',
      'hostname',
      'duration',
      'ipv6',
      'url',
    ]) {
      for (const part of ['a', '.', 'a.', '/', '1:', '%41', 'P1D', '{a}', '@']) {
        const schema = { type: 'object', properties: { a: { format } } };
        const cpuMs = cpuMsOf(() => messageFor(schema, { a: `${part.repeat(20_000)} !` }));
        expect(cpuMs, `${format} of many "${part}"`).toBeLessThan(2000);
      }
    }
  });

  test.each([':', '@', ':@', 'a:', 'a-', 'a.', '.', '/', '1.'])('a url of many "%s"', (part) => {
    const schema = { type: 'object', properties: { a: { format: 'url' } } };
    const text = `http://${part.repeat(100_000)} !`;
    const look = () => expect(messageFor(schema, { a: text })).toMatch(/match format "url"/);
    expect(cpuMsOf(look)).toBeLessThan(2000);
  });

  test.each<[string, boolean]>([
    ['https://example.com', true],
    ['ftp://example.com:8080/a/b?c=d#e', true],
    ['http://user@example.com/', true],
    ['http://user:a:word@example.com/', true],
    ['https://bücher.example/@user', true],
    ['http://203.0.113.7/', true],
    ['http://10.1.2.3/', false],
    ['http://user@10.1.2.3/', false],
    ['http://example', false],
    ['http://some body@example.com', false],
    ['mailto:user@example.com', false],
  ])('%s is a url: %s', (a, isUrl) => {
    const message = messageFor({ type: 'object', properties: { a: { format: 'url' } } }, { a });
    expect(message === null).toBe(isUrl);
  });
});

describe('schemas', () => {
  test('that cannot be compiled answer the call with an error', () => {
    const tool = makeTool('x', { type: 'object', properties: { a: { type: 'text' } } });
    const checked = validate(tool, {});
    expect(checked.ok ? '' : checked.message).toMatch(
      /^Tool 'x' cannot be called: its input schema is not usable/,
    );
    expect(validate(tool, {})).toEqual(checked);
  });

  test('of other drafts may name them and carry an id, also twice', () => {
    for (const $schema of [
      'http://json-schema.org/draft-07/schema#',
      'https://json-schema.org/draft/2020-12/schema',
    ]) {
      for (const type of ['string', 'integer']) {
        const schema = {
          $schema,
          $id: 'https://example.com/tool',
          type: 'object',
          properties: {
            id: { $ref: '#/definitions/value' },
            $id: { type: 'string' },
            const: { type: 'null' },
          },
          definitions: { value: { type } },
        };
        expect(messageFor(schema, { id: true, $id: 1, const: 1 })).toBe(
          `Invalid arguments for tool 'x': /id must be ${type}; /$id must be string; /const must be null`,
        );
      }
    }
  });

  test('a recursive schema checks recursive values', () => {
    const schema: JsonObject = {
      type: 'object',
      properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#' } } },
      required: ['name'],
    };
    expect(messageFor(schema, { name: 'a', children: [{ name: 'b', children: [] }] })).toBe(null);
    expect(messageFor(schema, { name: 'a', children: [{ name: 'b', children: [{}] }] })).toContain(
      "/children/0/children/0 missing required property 'name'",
    );
  });

  test('$async does not turn the check into a promise that is always true', () => {
    expect(messageFor({ ...note, $async: true }, {})).toContain('missing required property');
  });

  test('equal schemas of different tool objects and many different schemas are all answered alike', () => {
    const own = createArgumentValidator();
    for (let i = 0; i < 1100; i++) {
      const tool = makeTool('x', { type: 'object', required: [`p${i % 1050}`] });
      expect(own(tool, {})).toEqual({
        ok: false,
        message: `Invalid arguments for tool 'x': missing required property 'p${i % 1050}'`,
      });
    }
  });
});

describe('checkInputSchema', () => {
  test.each<[string, unknown, RegExp | null]>([
    ['the smallest schema', { type: 'object' }, null],
    ['a usual schema', note, null],
    [
      'a constant that only looks like a reference',
      { type: 'object', properties: { a: { const: '$ref' } } },
      null,
    ],
    [
      'a property named $ref',
      { type: 'object', properties: { a: { type: 'object', properties: { $ref: { type: 'string' } } } } },
      null,
    ],
    ['properties of every sign there may be', { type: 'object', properties: { 'a-B.c_9': {} } }, null],
    ['a property key as long as may be', { type: 'object', properties: { ['x'.repeat(64)]: {} } }, null],
    [
      'one longer',
      { type: 'object', properties: { ['x'.repeat(65)]: {} } },
      /must not have the property 'x{64}…'/,
    ],
    [
      'a property key with a blank',
      { type: 'object', properties: { a: {}, 'due date': {} } },
      /must not have the property 'due date' at the top; the provider takes keys of 1 to 64 letters, digits/,
    ],
    ['a property key with an umlaut', { type: 'object', properties: { größe: {} } }, /the property 'größe'/],
    ['an empty property key', { type: 'object', properties: { '': {} } }, /the property ''/],
    ['a property key with a line break', { type: 'object', properties: { 'a\n': {} } }, /the property 'a\n'/],
    [
      'such a key further down',
      { type: 'object', properties: { a: { type: 'object', properties: { 'due date': {} } } } },
      null,
    ],
    ['not an object', 'x', /must be an object/],
    ['an array', [], /must be an object/],
    ['null', null, /must be an object/],
    ['no type', {}, /must have type 'object'/],
    ['another type', { type: 'string' }, /must have type 'object'/],
    ['oneOf at the top', { type: 'object', oneOf: [{}] }, /must not have 'oneOf' at the top/],
    ['allOf at the top', { type: 'object', allOf: [{}] }, /must not have 'allOf' at the top/],
    ['anyOf at the top', { type: 'object', anyOf: [{}] }, /must not have 'anyOf' at the top/],
    ['a wrong keyword value', { type: 'object', required: 'a' }, /schema is invalid/],
    [
      'a remote reference',
      { type: 'object', properties: { a: { $ref: 'https://example.com' } } },
      /must point into/,
    ],
    ['a dangling reference', { type: 'object', properties: { a: { $ref: '#/$defs/b' } } }, /can't resolve/],
    ['a dynamic reference', { type: 'object', properties: { a: { $dynamicRef: '#a' } } }, /not supported/],
    [
      'anchors, of which no reference that is taken knows',
      {
        type: 'object',
        $anchor: 'a',
        $dynamicAnchor: 'b',
        properties: { c: { $dynamicAnchor: 'c', $recursiveAnchor: true } },
      },
      null,
    ],
    [
      'a reference in a constant',
      { type: 'object', properties: { a: { const: { $ref: '#' } } } },
      /may not hold/,
    ],
    [
      'a malformed pattern',
      { type: 'object', properties: { a: { pattern: '(' } } },
      /Invalid regular expression/,
    ],
    ['a back-reference', { type: 'object', properties: { a: { pattern: '(a)\\1' } } }, /back-references/],
    ['an unknown format', { type: 'object', properties: { a: { type: 'string', format: 'x-y' } } }, null],
    ['too large', { type: 'object', description: 'x'.repeat(140_000) }, /at most 131072 characters/],
  ])('%s', (_name, schema, expected) => {
    const problem = checkInputSchema(schema);
    if (expected === null) expect(problem).toBe(null);
    else expect(problem).toMatch(expected);
  });

  test('nesting beyond 64 levels is refused', () => {
    let schema: JsonObject = {};
    for (let i = 0; i < 70; i++) schema = { type: 'object', properties: { a: schema } };
    expect(checkInputSchema(schema)).toMatch(/nest at most 64 deep/);
  });
});
