import type { JsonObject, JsonValue } from './script.ts';

/** The keywords of a JSON schema that scripts keep to. */
export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: unknown;
  enum?: JsonValue[];
  const?: JsonValue;
  default?: JsonValue;
  items?: Schema;
  minimum?: number;
  minLength?: number;
  minItems?: number;
  format?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
}

/** Formats of strings: an example, and an expression that matches no invalid text. */
export const FORMATS: ReadonlyMap<string, { readonly example: string; readonly valid: RegExp }> = new Map([
  [
    'date-time',
    { example: '2026-11-27T09:30:00Z', valid: /^\d{4}-(?:0\d|1[0-2])-[0-2]\dT[01]\d:[0-5]\d:[0-5]\dZ$/ },
  ],
  ['time', { example: '09:30:00Z', valid: /^[01]\d:[0-5]\d:[0-5]\dZ$/ }],
  ['date', { example: '2026-11-27', valid: /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])$/ }],
  ['duration', { example: 'P3D', valid: /^P\d+D$/ }],
  ['email', { example: 'night@example.com', valid: /^[a-z0-9]+@[a-z0-9]+\.[a-z]+$/ }],
  ['hostname', { example: 'example.com', valid: /^[a-z0-9]+(?:\.[a-z0-9]+)*$/ }],
  ['uri', { example: 'https://example.com/', valid: /^https:\/\/[a-z0-9.]+\/[a-z0-9/]*$/ }],
  ['ipv4', { example: '192.0.2.1', valid: /^(?:\d{1,2}\.){3}\d{1,2}$/ }],
  ['ipv6', { example: '2001:db8::1', valid: /^2001:db8::[0-9a-f]{1,4}$/ }],
  [
    'uuid',
    {
      example: '01890000-0000-7000-8000-000000000000',
      valid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    },
  ],
]);

/** Returns the schema that a local reference names, or the schema itself. */
export function resolve(schema: Schema, root: Schema): Schema {
  const [, keyword, name = ''] = /^#\/(\$defs|definitions)\/(.+)$/.exec(schema.$ref ?? '') ?? [];
  const named = keyword === undefined ? undefined : root[keyword as '$defs' | 'definitions'];
  return named === undefined ? schema : resolve(ownOf(named, name) ?? {}, root);
}

/** Returns an own property of a map; a plain lookup would also find `constructor`. */
export function ownOf<T>(map: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns whether a value fits the keywords of {@link Schema} that the provider enforces. */
export function fits(given: Schema, value: JsonValue, root: Schema): boolean {
  const schema = resolve(given, root);
  const text = JSON.stringify(value);
  if (schema.const !== undefined && JSON.stringify(schema.const) !== text) return false;
  if (schema.enum?.every((listed) => JSON.stringify(listed) !== text) === true) return false;
  if (schema.anyOf?.every((branch) => !fits(branch, value, root)) === true) return false;
  if (schema.type !== undefined && ![schema.type].flat().some((type) => isOfType(value, type))) return false;
  if (Array.isArray(value)) {
    const { items = {}, minItems = 0 } = schema;
    return value.length >= minItems && value.every((item) => fits(items, item, root));
  }
  if (isJsonObject(value)) {
    const { properties = {}, required = [], additionalProperties } = schema;
    return (
      required.every((name) => Object.hasOwn(value, name)) &&
      Object.entries(value).every(([name, part]) => {
        const property = ownOf(properties, name);
        return property === undefined ? additionalProperties !== false : fits(property, part, root);
      })
    );
  }
  const format = schema.format === undefined ? undefined : FORMATS.get(schema.format);
  return typeof value !== 'string' || format === undefined || format.valid.test(value);
}

function isOfType(value: JsonValue, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isJsonObject(value);
    case 'integer':
      return Number.isSafeInteger(value);
    default:
      return typeof value === type;
  }
}
