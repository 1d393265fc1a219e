import { isJsonObject, type Json, type JsonObject } from '../base/json.ts';

/** A piece of a template: literal text, or the path of a value (`{{user.name}}` has the path `user`, `name`). */
export type TemplatePiece = string | readonly string[];

/** First name of a template that stands for a secret: `{{secrets.NAME}}`. */
export const SECRETS = 'secrets';

const TEMPLATE = /\{\{\s*([\w-]+(?:\.[\w-]+)*)\s*\}\}/g;

/** Splits a text into literal pieces and templates. Other braces are literal. */
export function parseTemplate(text: string): readonly TemplatePiece[] {
  const pieces: TemplatePiece[] = [];
  let end = 0;
  for (const match of text.matchAll(TEMPLATE)) {
    if (match.index > end) pieces.push(text.slice(end, match.index));
    pieces.push((match[1] as string).split('.'));
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

/** Returns the path of a text that is one template alone; null for any other text. */
export function onlyTemplate(text: string): readonly string[] | null {
  const [piece, ...rest] = parseTemplate(text);
  return rest.length === 0 && typeof piece === 'object' ? piece : null;
}

/** Reads a nested value by own keys and list positions; undefined if it is absent. */
export function valueAt(value: Json, path: readonly string[]): Json | undefined {
  let at: Json | undefined = value;
  for (const name of path) {
    if (Array.isArray(at)) at = /^\d+$/.test(name) ? (at as readonly Json[])[Number(name)] : undefined;
    else at = isJsonObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}

/** Splits a JSON Pointer (RFC 6901) into its names. */
export function pointerNames(pointer: string): readonly string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Writes a value as text: strings as they are, lists and objects as JSON, nothing for null and absent values. */
export function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed();
}

/** Maximum references that one look into a schema follows; a schema may refer to itself. */
const REFERENCES_MAX = 16;

/**
 * Tells whether arguments of a schema may have a value at a path.
 * The first name must be a property of the schema; below it, a schema without `properties` allows any name.
 */
export function mayHold(schema: JsonObject, path: readonly string[]): boolean {
  const [first = '', ...rest] = path;
  const properties = schema['properties'];
  if (!isJsonObject(properties) || !Object.hasOwn(properties, first)) return false;
  return reaches(schema, properties[first], rest, REFERENCES_MAX);
}

function reaches(
  root: JsonObject,
  schema: Json | undefined,
  path: readonly string[],
  references: number,
): boolean {
  const [name, ...rest] = path;
  if (name === undefined || !isJsonObject(schema)) return true;
  const { $ref, properties, items, type } = schema;
  if (typeof $ref === 'string') {
    const target = valueAt(root, pointerNames($ref.slice(1)));
    return references === 0 || reaches(root, target, path, references - 1);
  }
  const choices = ['anyOf', 'oneOf', 'allOf'].flatMap((keyword) => schema[keyword] ?? []) as readonly Json[];
  if (choices.some((choice) => reaches(root, choice, path, references))) return true;
  if (isJsonObject(properties) && Object.hasOwn(properties, name))
    return reaches(root, properties[name], rest, references);
  if (items !== undefined && /^\d+$/.test(name)) return reaches(root, items, rest, references);
  if (isJsonObject(properties) || items !== undefined || choices.length > 0) {
    const { additionalProperties = false } = schema;
    return additionalProperties !== false && reaches(root, additionalProperties, rest, references);
  }
  const types = type === undefined ? ['object'] : [type].flat();
  return types.includes('object') || types.includes('array');
}
