import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { canonicalJson } from './mcp-definition.ts';
import { compilePattern, PATTERN_STATES_MAX, type PatternBudget } from './pattern.ts';

/**
 * A check of a schema.
 * Throws: RangeError when the value is too much work.
 */
export type SchemaCheck = (value: Json) => readonly SchemaError[];

/** An invalid value: JSON Pointer and a sentence. */
export interface SchemaError {
  readonly path: string;
  readonly message: string;
}

export type CompiledSchema =
  { readonly ok: true; readonly check: SchemaCheck } | { readonly ok: false; readonly message: string };

/** Maximum characters of a schema's JSON text, and its maximum depth. */
const SCHEMA_CHARS_MAX = 131_072;
const SCHEMA_DEPTH_MAX = 64;
/** References that a check may follow; in some schemas each doubles the work. */
const REFERENCES_MAX = 20_000;
/** Ajv keeps the patterns and constants of every schema, so it is replaced after this many. */
const SCHEMAS_PER_AJV = 256;
/** Remaining work of a check. */
interface WorkLeft extends PatternBudget {
  references_left: number;
}
/** Stands beside every `$ref` of a prepared schema and counts its uses. */
const REFERENCE_COUNTER = 'nightshift:reference';

/**
 * Makes a compiler of JSON schemas (draft 2020-12, formats asserted) that is safe with untrusted schemas and values.
 * Patterns and formats match in linear time, patterns within a shared budget per check. References are counted, and
 * `uniqueItems` compares texts. `$id`, `$async` and remote references have no effect outside the schema. Nothing is
 * coerced or filled in.
 */
export function createSchemaCompiler(): (schema: JsonObject) => CompiledSchema {
  const work: WorkLeft = { references_left: 0, states_left: 0 };
  let ajv: Ajv2020 | null = null;
  let compiled = 0;

  return (schema) => {
    try {
      const prepared = prepareSchema(schema);
      if (ajv === null || compiled % SCHEMAS_PER_AJV === 0) ajv = createAjv(work);
      compiled++;
      const validate = ajv.compile(prepared);
      ajv.removeSchema(prepared);
      return {
        ok: true,
        check: (value) => {
          work.references_left = REFERENCES_MAX;
          work.states_left = PATTERN_STATES_MAX;
          return validate(value) ? [] : describeErrors(validate);
        },
      };
    } catch (error) {
      return { ok: false, message: error instanceof Error ? error.message : String(error) };
    }
  };
}

/** The user part in the expression for `url`: its colons match in too many ways. */
const ANY_USER = String.raw`(?:\S+(?::\S*)?@)?`;
const KNOWN_URL = ajvFormats.default.get('url') as RegExp;
/** The library's expression for `url` with users without `@` and `/`, which makes it linear. */
const LINEAR_URL = new RegExp(
  KNOWN_URL.source.replace(ANY_USER, () => String.raw`(?:[^\s/@]+@)?`),
  KNOWN_URL.flags,
);

function createAjv(work: WorkLeft): Ajv2020 {
  const regExp = Object.assign((pattern: string) => compilePattern(pattern, work), {
    code: 'compilePattern',
  });
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    ownProperties: true,
    inlineRefs: false,
    logger: false,
    code: { regExp },
  });
  ajvFormats.default(ajv);
  ajv.addFormat('url', LINEAR_URL);
  ajv.addKeyword({
    keyword: REFERENCE_COUNTER,
    validate: () => {
      if (work.references_left-- > 0) return true;
      throw new RangeError('the schema follows too many references for this value');
    },
  });
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must not hold the same item twice' },
    validate: (unique: boolean, items: readonly Json[]) =>
      !unique || new Set(items.map(canonicalJson)).size === items.length,
  });
  return ajv;
}

/** Keywords whose values map names to schemas: their keys are no keywords. */
const NAME_MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
]);
/** Keywords that reach beyond the schema, or serve unsupported references: left out. */
const DROPPED: ReadonlySet<string> = new Set([
  '$id',
  'id',
  '$schema',
  '$async',
  '$anchor',
  '$dynamicAnchor',
  '$recursiveAnchor',
  '$vocabulary',
]);

/**
 * Copies a schema that is within the limits and self-contained, and adds the reference counters.
 * Throws: for any other schema.
 */
function prepareSchema(schema: JsonObject): JsonObject {
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_CHARS_MAX) {
    throw new RangeError(
      `a schema may have at most ${SCHEMA_CHARS_MAX} characters, this schema has ${text.length}`,
    );
  }
  return prepareObject(schema, 0, false);
}

function prepare(value: Json, depth: number): Json {
  if (Array.isArray(value)) return value.map((item: Json) => prepare(item, depth + 1));
  return isJsonObject(value) ? prepareObject(value, depth, false) : value;
}

function prepareObject(object: JsonObject, depth: number, isNameMap: boolean): JsonObject {
  if (depth > SCHEMA_DEPTH_MAX) throw new RangeError(`a schema may nest at most ${SCHEMA_DEPTH_MAX} deep`);
  const entries: [string, Json][] = [];
  for (const [key, value] of Object.entries(object)) {
    if (isNameMap) entries.push([key, prepare(value, depth + 1)]);
    else if (key === '$dynamicRef' || key === '$recursiveRef') {
      throw new SyntaxError(`${key} is not supported; use $ref`);
    } else if (key === '$ref') entries.push([key, prepareReference(value)], [REFERENCE_COUNTER, true]);
    else if (key === 'const' || key === 'enum') entries.push([key, assertPlain(value)]);
    else if (NAME_MAPS.has(key) && isJsonObject(value))
      entries.push([key, prepareObject(value, depth + 1, true)]);
    else if (!DROPPED.has(key)) entries.push([key, prepare(value, depth + 1)]);
  }
  return Object.fromEntries(entries);
}

function prepareReference(reference: Json): Json {
  if (typeof reference !== 'string' || !/^#(?:$|\/)/.test(reference)) {
    throw new SyntaxError('$ref must point into the schema itself, as `#/$defs/name`');
  }
  return reference;
}

/** Refuses `$ref` in a constant, where a reference could point and would not be counted. */
function assertPlain(value: Json): Json {
  if (JSON.stringify(value).includes('"$ref":')) throw new SyntaxError('const and enum may not hold a $ref');
  return value;
}

const LISTED_VALUES_CHARS_MAX = 200;

function describeErrors(validate: ValidateFunction): readonly SchemaError[] {
  return (validate.errors ?? []).map(({ instancePath, keyword, params, message }) => {
    const detail = params as Readonly<Record<string, unknown>>;
    return { path: instancePath, message: describeError(keyword, detail) ?? message ?? 'is not valid' };
  });
}

function describeError(keyword: string, params: Readonly<Record<string, unknown>>): string | null {
  switch (keyword) {
    case 'required':
      return `missing required property '${String(params['missingProperty'])}'`;
    case 'additionalProperties':
      return `unknown property '${String(params['additionalProperty'])}'`;
    case 'unevaluatedProperties':
      return `unknown property '${String(params['unevaluatedProperty'])}'`;
    case 'enum':
      return `must be one of ${JSON.stringify(params['allowedValues']).slice(0, LISTED_VALUES_CHARS_MAX)}`;
    case 'const':
      return `must be ${JSON.stringify(params['allowedValue']).slice(0, LISTED_VALUES_CHARS_MAX)}`;
    default:
      return null;
  }
}
