import { describe, expect, test } from 'vitest';
import { fc } from '../../../test/fast-check.ts';
import type { JsonObject as CoreObject } from '../../../libs/agent-core/src/base/json.ts';
import { createSchemaCompiler } from '../../../libs/agent-core/src/tools/schema-compiler.ts';
import { strictSize } from '../../../libs/agent-core/src/tools/strict-subset.ts';
import { anySchema } from '../../../libs/agent-core/test/tools/any-schema.ts';
import type { JsonObject, JsonValue, MessageParams } from '../src/scripts/script.ts';
import { answer, callsOf, converse, params, textIn } from './support/converse.ts';

const closed = (properties: JsonObject, required: string[] = Object.keys(properties)): JsonObject => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const strict = (name: string, input_schema: JsonObject): JsonObject & { name: string } => ({
  name,
  input_schema,
  strict: true,
});
const formatted = (schema: JsonObject): Partial<MessageParams> => ({
  tools: [],
  output_config: { format: { type: 'json_schema', schema } },
});
const addTool = strict('add', closed({ a: { type: 'integer' }, b: { type: 'integer' } }));
const optional = (count: number): JsonObject =>
  closed(Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, { type: 'string' }])), []);
const unions = (count: number): JsonObject =>
  closed(
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, { type: ['string', 'null'] }])),
  );

describe('an enforced schema', () => {
  test.each<[string, JsonObject, RegExp]>([
    [
      'that is open',
      { type: 'object', properties: {} },
      /'additionalProperties' must be explicitly set to false/,
    ],
    ['that is open within', closed({ a: { type: 'object' } }), /'additionalProperties' must be/],
    ['with a bound', closed({ a: { type: 'integer', minimum: 0 } }), /'minimum' is not supported/],
    ['with a length', closed({ a: { type: 'string', maxLength: 3 } }), /'maxLength' is not supported/],
    [
      'with two items',
      closed({ a: { type: 'array', items: { type: 'null' }, minItems: 2 } }),
      /'minItems' may be/,
    ],
    ['with objects in an enum', closed({ a: { enum: [{}] } }), /'enum' may list/],
    [
      'with an unknown format',
      closed({ a: { type: 'string', format: 'regex' } }),
      /format "regex" is not supported/,
    ],
    ['without a type', closed({ a: {} }), /must have a type/],
    [
      'with a remote reference',
      closed({ a: { $ref: 'https://example.com' } }),
      /\$ref https:.* is not supported/,
    ],
    [
      'that is recursive',
      { ...closed({ a: { $ref: '#/$defs/d' } }), $defs: { d: closed({ a: { $ref: '#/$defs/d' } }) } },
      /recursive schemas are not supported/,
    ],
  ])('%s is refused, of a tool and of an output format', (_name, schema, message) => {
    expect(() => answer(params('go', { tools: [strict('t', schema)] }))).toThrow(message);
    expect(() => answer(params('go', formatted(schema)))).toThrow(message);
    const { strict: _strict, ...plain } = strict('t', schema);
    expect(() => answer(params('go', { tools: [plain as never] }))).not.toThrow();
  });

  test('is refused beyond the limits, of tools and output format together', () => {
    const tools = Array.from({ length: 21 }, (_, i) => strict(`t${i}`, closed({})));
    expect(() => answer(params('go', { tools }))).toThrow(/Too many strict tools \(21\)/);
    expect(() => answer(params('go', { tools: tools.slice(1) }))).not.toThrow();
    expect(() =>
      answer(params('go', { tools: [strict('a', optional(12)), strict('b', optional(12))] })),
    ).not.toThrow();
    expect(() =>
      answer(params('go', { ...formatted(optional(5)), tools: [strict('a', optional(20))] })),
    ).toThrow(/too many optional parameters \(25\)/);
    expect(() => answer(params('go', { tools: [strict('a', unions(17))] }))).toThrow(/union types \(17\)/);
  });

  test('is refused without its members, or beside citations', () => {
    const format = (value: unknown) => () => answer(params('go', { output_config: { format: value } }));
    expect(format({ type: 'xml' })).toThrow(/format\.type: Input should be 'json_schema'/);
    expect(format({ type: 'json_schema' })).toThrow(/format\.schema: Field required/);
    expect(() => answer(params('go', { tools: [{ ...addTool, strict: 'yes' }] }))).toThrow(
      /strict: Input should be/,
    );
    const document = { type: 'document', source: { type: 'text', data: 'x' }, citations: { enabled: true } };
    const messages = [{ role: 'user', content: [document, { type: 'text', text: 'go' }] }];
    expect(() => answer(params('', { ...formatted(closed({})), messages }))).toThrow(
      /citations are not supported/,
    );
  });

  test('is kept by every call, whatever the script wrote', () => {
    const tools = [addTool];
    const bad = converse(params('⟦sim:badArgs?tool=add⟧', { tools }));
    expect(callsOf(bad[0])[0]?.['input']).toEqual({ a: expect.any(Number), b: expect.any(Number) });
    const plan = JSON.stringify({ tool: 'add', args: { a: 7, b: 'x', c: 1 } });
    expect(callsOf(answer(params(plan, { tools })))[0]?.['input']).toEqual({ a: 7, b: expect.any(Number) });
  });

  test('is kept by the last answer, whose fitting text stays', () => {
    const schema = closed({ grade: { enum: ['a', 'b'] }, on: { type: 'string', format: 'date' } });
    const said = answer(params('Mark this.', formatted(schema)));
    expect(JSON.parse(textIn(said))).toEqual({ grade: expect.stringMatching(/^[ab]$/), on: '2026-11-27' });
    const fitting = '{"answer": {"grade": "b", "on": "2026-01-02"}}';
    expect(textIn(answer(params(fitting, formatted(schema))))).toBe('{"grade":"b","on":"2026-01-02"}');
    expect(JSON.parse(textIn(answer(params('{"answer": {"grade": "b"}}', formatted(schema)))))).toEqual({
      grade: 'b',
      on: '2026-11-27',
    });
  });

  test('may be broken by an answer that is cut off or refused', () => {
    const schema = closed({ grade: { type: 'string' } });
    expect(textIn(answer(params('⟦sim:maxTokensText⟧', formatted(schema))))).toContain('stops in the middle');
    expect(textIn(answer(params('⟦sim:refusal?mid=1⟧', formatted(schema))))).toContain('Certainly');
    const cut = answer(params('⟦sim:maxTokensMidToolUse?tool=add⟧', { tools: [addTool] }));
    expect(callsOf(cut)[0]?.['input']).toEqual({});
  });

  test('that is proven in the core is taken, and kept by calls and answers', () => {
    let taken = 0;
    fc.assert(
      fc.property(anySchema, fc.jsonValue({ maxDepth: 3 }), (schema: CoreObject, value) => {
        const size = strictSize(schema);
        if (size === null || size.optional > 12 || size.unions > 8) return;
        taken++;
        const given = schema as JsonObject;
        const compiled = createSchemaCompiler()(schema);
        const check = (made: unknown) => expect(compiled.ok && compiled.check(made as JsonValue)).toEqual([]);
        const plan = JSON.stringify({ tool: 't', args: value as JsonValue });
        const more = { ...formatted(given), tools: [strict('t', given)] };
        check(callsOf(answer(params(plan, more)))[0]?.['input']);
        check(JSON.parse(textIn(answer(params(JSON.stringify({ answer: value as JsonValue }), more)))));
      }),
      { numRuns: 1_500 },
    );
    expect(taken).toBeGreaterThan(50);
  });
});
