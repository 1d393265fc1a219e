import { FORMATS, fits, ownOf, resolve, type Schema } from './schema.ts';
import type { JsonObject, JsonValue, MessageParams } from './script.ts';

/**
 * Creates a value of a JSON schema, the same for the same request. With `root`, a schema that the provider enforces, it also
 * follows references and keeps to formats.
 */
export function sample(
  given: Schema,
  name: string,
  draw: (purpose: string) => number,
  root?: Schema,
): JsonValue {
  const schema = root === undefined ? given : resolve(given, root);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined && schema.enum.length > 0) {
    return schema.enum[Math.floor(draw(`enum ${name}`) * schema.enum.length)] ?? null;
  }
  if (schema.default !== undefined && (root === undefined || fits(schema, schema.default, root)))
    return schema.default;
  const choice = schema.anyOf?.[0] ?? schema.oneOf?.[0];
  if (choice !== undefined) return sample(choice, name, draw, root);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case 'integer':
    case 'number':
      return (schema.minimum ?? 0) + Math.floor(draw(`number ${name}`) * 100);
    case 'boolean':
      return draw(`boolean ${name}`) < 0.5;
    case 'array':
      return Array.from({ length: schema.minItems ?? 1 }, (_, i) =>
        sample(schema.items ?? {}, `${name}.${i}`, draw, root),
      );
    case 'object':
      return sampleArguments(schema, draw, name, root);
    case 'null':
      return null;
    default: {
      const example = root === undefined ? undefined : FORMATS.get(schema.format ?? '')?.example;
      return (
        example ?? `${name} ${Math.floor(draw(`string ${name}`) * 10_000)}`.padEnd(schema.minLength ?? 0, '.')
      );
    }
  }
}

/** Creates arguments for the required part of a plain JSON schema, the same for the same request. */
export function sampleArguments(
  schema: unknown,
  draw: (purpose: string) => number,
  path = '',
  root?: Schema,
): JsonObject {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  return Object.fromEntries(
    required.map((name) => [name, sample(ownOf(properties, name) ?? {}, path + name, draw, root)]),
  );
}

/** Creates arguments that break the schema: the first required one has the wrong type, the others are missing. */
export function badArguments(schema: unknown): JsonObject {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  const name = required[0];
  if (name === undefined) return { not_a_parameter: true };
  return {
    [name]: ownOf(properties, name)?.type === 'object' ? 'not an object' : { not: 'what was asked for' },
  };
}

/** Returns the input schema of a named tool, or undefined. */
export function schemaOf(params: MessageParams, tool: string): unknown {
  return params.tools?.find((candidate) => candidate.name === tool)?.['input_schema'];
}
