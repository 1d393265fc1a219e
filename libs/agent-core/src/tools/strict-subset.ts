import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';

/** Parameters of a schema that count against the provider's limits. Never fewer than the provider counts. */
export interface StrictSize {
  /** Properties that are not required. */
  readonly optional: number;
  /** Places with `anyOf` or several types. */
  readonly unions: number;
}

/** A walk through a schema; counts are those of the places visited so far. */
interface Walk {
  readonly definitions: ReadonlyMap<string, Json>;
  /** References being followed: meeting an open one again means that the schema is recursive. */
  readonly open: Set<string>;
  places_left: number;
  values_left: number;
  optional: number;
  unions: number;
}

/**
 * The provider also refuses schemas that are too complex, and does not say from which size on. Both bounds are far below
 * any size known to be refused. Each use of a reference counts its places again.
 */
const PLACES_MAX = 300;
const LISTED_VALUES_MAX = 500;

/** Keywords without effect on what is valid. */
const NOTES = ['title', 'description', 'default'];
const KEYWORDS: ReadonlyMap<Json, readonly string[]> = new Map<Json, readonly string[]>([
  ['object', ['properties', 'required', 'additionalProperties']],
  ['array', ['items', 'minItems']],
  ['string', ['format']],
  ...['integer', 'number', 'boolean', 'null'].map((type): [Json, readonly string[]] => [type, []]),
]);
const FORMATS: ReadonlySet<Json | undefined> = new Set([
  ...['date-time', 'time', 'date', 'duration', 'email'],
  ...['hostname', 'uri', 'ipv4', 'ipv6', 'uuid'],
]);
const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;

/**
 * Proves that a schema is in the subset that the provider enforces, as it stands. Returns its size; null without a proof.
 * Unknown keywords prove nothing. Neither do `pattern`, whose dialect is the provider's own, and `allOf`, which the
 * provider takes in some forms only.
 * Source: the provider's page on structured outputs.
 */
export function strictSize(schema: JsonObject): StrictSize | null {
  const { $defs = {}, definitions: older = {}, ...root } = schema;
  const definitions = new Map<string, Json>();
  for (const [keyword, named] of Object.entries({ $defs, definitions: older })) {
    if (!isJsonObject(named)) return null;
    for (const [name, definition] of Object.entries(named)) {
      definitions.set(`#/${keyword}/${name}`, definition);
    }
  }
  const walk: Walk = {
    definitions,
    open: new Set(),
    places_left: PLACES_MAX,
    values_left: LISTED_VALUES_MAX,
    optional: 0,
    unions: 0,
  };
  // The provider compiles an object; a definition is sent, and so compiled, even where nothing refers to it.
  const isProven =
    root['type'] === 'object' &&
    isStrict(root, walk) &&
    [...definitions.keys()].every((name) => follow(name, walk));
  return isProven ? { optional: walk.optional, unions: walk.unions } : null;
}

function isStrict(schema: Json | undefined, walk: Walk): boolean {
  if (!isJsonObject(schema) || walk.places_left-- <= 0) return false;
  const { $ref: reference, anyOf: branches } = schema;
  if (reference !== undefined) {
    return typeof reference === 'string' && hasOnly(schema, ['$ref'], []) && follow(reference, walk);
  }
  if (branches === undefined) return isTyped(schema, walk);
  walk.unions++;
  return (
    Array.isArray(branches) &&
    branches.length > 0 &&
    hasOnly(schema, ['anyOf']) &&
    branches.every((branch: Json) => isStrict(branch, walk))
  );
}

function follow(reference: string, walk: Walk): boolean {
  const { definitions, open } = walk;
  if (open.has(reference)) return false;
  open.add(reference);
  const isProven = isStrict(definitions.get(reference), walk);
  open.delete(reference);
  return isProven;
}

/** Proves a schema with a type, a list of values, or both. */
function isTyped(schema: JsonObject, walk: Walk): boolean {
  const { type, enum: listed, const: constant } = schema;
  const types: readonly Json[] = type === undefined ? [] : Array.isArray(type) ? type : [type];
  if (types.length > 1) walk.unions++;
  if (new Set(types).size !== types.length || !types.every((each) => KEYWORDS.has(each))) return false;
  if (listed === undefined && constant === undefined) {
    const keywords = types.flatMap((each) => KEYWORDS.get(each) ?? []);
    return (
      types.length > 0 &&
      hasOnly(schema, ['type', ...keywords]) &&
      (!types.includes('object') || isClosedObject(schema, walk)) &&
      (!types.includes('array') || isPlainArray(schema, walk)) &&
      (schema['format'] === undefined || FORMATS.has(schema['format']))
    );
  }
  const values = constant === undefined ? listed : [constant];
  return (
    Array.isArray(values) &&
    values.length > 0 &&
    (walk.values_left -= values.length) >= 0 &&
    hasOnly(schema, ['type', constant === undefined ? 'enum' : 'const']) &&
    values.every((value: Json) => isPlainValue(value, types))
  );
}

function isClosedObject(
  { properties = {}, required = [], additionalProperties }: JsonObject,
  walk: Walk,
): boolean {
  if (additionalProperties !== false || !isJsonObject(properties) || !Array.isArray(required)) return false;
  const keys = Object.keys(properties);
  walk.optional += keys.filter((key) => !required.includes(key)).length;
  return (
    required.every((key: Json) => typeof key === 'string' && Object.hasOwn(properties, key)) &&
    keys.every((key) => PROPERTY_KEY.test(key)) &&
    Object.values(properties).every((property) => isStrict(property, walk))
  );
}

function isPlainArray({ items, minItems = 0 }: JsonObject, walk: Walk): boolean {
  return (minItems === 0 || minItems === 1) && isStrict(items, walk);
}

/** Returns whether a listed value is a scalar of one of the types; no types: of any. */
function isPlainValue(value: Json, types: readonly Json[]): boolean {
  if (typeof value === 'object' && value !== null) return false;
  if (types.length === 0) return true;
  if (typeof value !== 'number') return types.includes(value === null ? 'null' : typeof value);
  return types.includes('number') || (types.includes('integer') && Number.isInteger(value));
}

function hasOnly(schema: JsonObject, keywords: readonly string[], notes: readonly string[] = NOTES): boolean {
  return Object.keys(schema).every((keyword) => keywords.includes(keyword) || notes.includes(keyword));
}
