import type { JsonObject, JsonValue, MessageParams } from './script.ts';

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: JsonValue[];
  const?: JsonValue;
  default?: JsonValue;
  items?: Schema;
  minimum?: number;
  minLength?: number;
  minItems?: number;
  anyOf?: Schema[];
  oneOf?: Schema[];
}

function sample(schema: Schema, name: string, draw: (purpose: string) => number): JsonValue {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined && schema.enum.length > 0) {
    return schema.enum[Math.floor(draw(`enum ${name}`) * schema.enum.length)] ?? null;
  }
  if (schema.default !== undefined) return schema.default;
  const choice = schema.anyOf?.[0] ?? schema.oneOf?.[0];
  if (choice !== undefined) return sample(choice, name, draw);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case 'integer':
    case 'number':
      return (schema.minimum ?? 0) + Math.floor(draw(`number ${name}`) * 100);
    case 'boolean':
      return draw(`boolean ${name}`) < 0.5;
    case 'array':
      return Array.from({ length: schema.minItems ?? 1 }, (_, i) =>
        sample(schema.items ?? {}, `${name}.${i}`, draw),
      );
    case 'object':
      return sampleArguments(schema, draw, name);
    case 'null':
      return null;
    default:
      return `${name} ${Math.floor(draw(`string ${name}`) * 10_000)}`.padEnd(schema.minLength ?? 0, '.');
  }
}

/** Creates arguments for the required part of a plain JSON schema, the same for the same request. */
export function sampleArguments(schema: unknown, draw: (purpose: string) => number, path = ''): JsonObject {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  return Object.fromEntries(
    required.map((name) => [name, sample(ownOf(properties, name) ?? {}, path + name, draw)]),
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

/** Returns an own property of the schema; a plain lookup would also find `constructor`. */
function ownOf(properties: Readonly<Record<string, Schema>>, name: string): Schema | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

/** Returns the input schema of a named tool, or undefined. */
export function schemaOf(params: MessageParams, tool: string): unknown {
  return params.tools?.find((candidate) => candidate.name === tool)?.['input_schema'];
}
