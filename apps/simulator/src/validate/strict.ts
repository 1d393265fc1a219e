import { FORMATS, type Schema } from '../scripts/schema.ts';
import type { MessageParams } from '../scripts/script.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue } from './issue.ts';

/** Limits for all enforced schemas of a request together. */
const TOOLS_MAX = 20;
const OPTIONAL_MAX = 24;
const UNIONS_MAX = 16;

const TYPES = new Set<unknown>(['object', 'array', 'string', 'integer', 'number', 'boolean', 'null']);
/**
 * The keywords that the provider enforces. It also takes `allOf` and `pattern` in some forms; both are refused here, because
 * no script keeps to them.
 */
const KEYWORDS = new Set([
  ...['type', 'enum', 'const', 'anyOf', '$ref', '$defs', 'definitions', 'title', 'description', 'default'],
  ...['properties', 'required', 'additionalProperties', 'items', 'minItems', 'format'],
]);
const LOCAL_REFERENCE = /^#\/(\$defs|definitions)\/(.+)$/;

interface Counts {
  optional: number;
  unions: number;
}

/** Validates the schemas that a request enforces, of strict tools and of `output_config.format`, and their limits. */
export function strictIssue(params: MessageParams): Issue | undefined {
  const { tools = [], output_config: config } = params;
  const schemas: [string, unknown][] = tools.flatMap((tool, at) =>
    tool['strict'] === true ? [[`tools.${at}.custom.input_schema`, tool['input_schema']]] : [],
  );
  if (schemas.length > TOOLS_MAX) {
    return invalid(`tools: Too many strict tools (${schemas.length}). The maximum is ${TOOLS_MAX}.`);
  }
  const format = isObject(config) ? config['format'] : undefined;
  if (format != null) {
    if (!isObject(format) || format['type'] !== 'json_schema')
      return invalid("output_config.format.type: Input should be 'json_schema'");
    if (!isObject(format['schema'])) return invalid('output_config.format.schema: Field required');
    if (params.messages.some(({ content }) => typeof content !== 'string' && content.some(isCited)))
      return invalid('output_config.format: citations are not supported together with an output format');
    schemas.push(['output_config.format.schema', format['schema']]);
  }
  const counts: Counts = { optional: 0, unions: 0 };
  for (const [path, schema] of schemas) {
    const problem = schemaProblem(schema, schema as Schema, [], counts);
    if (problem !== null) return invalid(`${path}: ${problem}`);
  }
  for (const [what, count, max] of [
    ['optional parameters', counts.optional, OPTIONAL_MAX],
    ['parameters with union types', counts.unions, UNIONS_MAX],
  ] as const) {
    if (count > max) {
      return invalid(
        `Schemas contain too many ${what} (${count}). The maximum is ${max}. Schema is too complex for compilation.`,
      );
    }
  }
  return undefined;
}

function isCited(block: Record<string, unknown>): boolean {
  const { citations } = block;
  return isObject(citations) && citations['enabled'] === true;
}

/** Returns the reason why the provider does not compile a schema; null if it does. Adds to the counts. */
function schemaProblem(
  schema: unknown,
  root: Schema,
  open: readonly string[],
  counts: Counts,
): string | null {
  if (!isObject(schema)) return 'a schema must be an object';
  const foreign = Object.keys(schema).find((keyword) => !KEYWORDS.has(keyword));
  if (foreign !== undefined) return `'${foreign}' is not supported`;
  const { $ref, anyOf, enum: listed, type, properties = {}, items, minItems = 0, format } = schema;
  const parts: unknown[] = [schema['$defs'], schema['definitions'], properties]
    .filter(isObject)
    .flatMap((named) => Object.values(named));
  if (anyOf !== undefined && !Array.isArray(anyOf)) return "'anyOf' must be a list";
  if (anyOf !== undefined || (Array.isArray(type) && type.length > 1)) counts.unions++;
  if (anyOf !== undefined) parts.push(...(anyOf as unknown[]));
  const types = type === undefined ? [] : [type].flat();
  if (!types.every((each) => TYPES.has(each))) return `type ${JSON.stringify(type)} is not supported`;
  if (types.includes('object')) {
    if (schema['additionalProperties'] !== false)
      return "for 'object' type, 'additionalProperties' must be explicitly set to false";
    const required = Array.isArray(schema['required']) ? schema['required'] : [];
    counts.optional += Object.keys(properties as object).filter((name) => !required.includes(name)).length;
  }
  if (Array.isArray(listed) && listed.some((value) => typeof value === 'object' && value !== null))
    return "'enum' may list strings, numbers, booleans and null only";
  if (minItems !== 0 && minItems !== 1) return "'minItems' may be 0 or 1 only";
  if (format !== undefined && !FORMATS.has(format as string))
    return `format ${JSON.stringify(format)} is not supported`;
  if (items !== undefined) parts.push(items);
  if ([$ref, anyOf, listed, schema['const'], type].every((member) => member === undefined))
    return 'a schema must have a type';
  for (const part of parts) {
    const problem = schemaProblem(part, root, open, counts);
    if (problem !== null) return problem;
  }
  return $ref === undefined ? null : referenceProblem($ref, root, open);
}

/** Checks a reference. Its schema is counted where it is defined. */
function referenceProblem(reference: unknown, root: Schema, open: readonly string[]): string | null {
  const [, keyword, name = ''] = LOCAL_REFERENCE.exec(String(reference)) ?? [];
  const named = root[keyword as '$defs' | 'definitions'];
  if (named === undefined || !Object.hasOwn(named, name)) return `$ref ${String(reference)} is not supported`;
  if (open.includes(name)) return 'recursive schemas are not supported';
  return schemaProblem(named[name], root, [...open, name], { optional: 0, unions: 0 });
}
