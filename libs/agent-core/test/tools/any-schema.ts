import { fc } from '../../../../test/fast-check.ts';
import type { Json, JsonObject } from '../../src/base/json.ts';

/** Schemas that are mostly in the subset, with a few members that are not. */
export const anySchema: fc.Arbitrary<JsonObject> = fc.letrec<{ any: JsonObject; object: JsonObject }>(
  (tie) => ({
    object: fc
      .record({
        properties: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('any'), { maxKeys: 3 }),
        rest: fc.option(fc.constantFrom<JsonObject>({ minProperties: 1 }, { $schema: 'x' }, { title: 't' }), {
          freq: 5,
          nil: {},
        }),
        additionalProperties: fc.constantFrom<Json>(false, false, false, true, { type: 'string' }),
        keep: fc.boolean(),
      })
      .map(({ properties, rest, additionalProperties, keep }) => ({
        type: 'object',
        properties,
        required: keep ? Object.keys(properties) : [],
        additionalProperties,
        ...rest,
        $defs: { d: { type: 'string' } },
      })),
    any: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<JsonObject>(
        { type: 'string' },
        { type: 'string', format: 'date' },
        { type: 'string', minLength: 1 },
        { type: 'string', pattern: '(?=a)' },
        { type: ['integer', 'null'] },
        { type: 'integer', minimum: 0 },
        { enum: ['a', 1] },
        { enum: [['a']] },
        { const: null },
        { $ref: '#/$defs/d' },
        {},
      ),
      fc.record({ type: fc.constant('array'), items: tie('any'), minItems: fc.constantFrom(0, 1, 2) }),
      fc.array(tie('any'), { maxLength: 3 }).map((anyOf) => ({ anyOf })),
      tie('object').map(({ $defs: _, ...nested }) => nested),
    ),
  }),
).object;
