/** A JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Maximum stored nesting depth. Postgres' parser fails near 6,000 and JavaScript's printer near 10,000. */
export const JSON_DEPTH_MAX = 128;

/** Returns whether a value is an object that is neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Nesting depth (1 for an array of scalars) and number of values of a JSON text. */
export interface JsonMeasure {
  readonly depth: number;
  readonly values: number;
}

/**
 * Measures a JSON text without building it; an empty list or object counts as two values.
 * Stops past either bound, so a hostile text costs at most its length.
 */
export function measureJson(text: string, max: JsonMeasure): JsonMeasure {
  let depth = 0;
  let deepest = 0;
  // The root value, and one value after each bracket and comma.
  let values = 1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x2c) {
      if (++values > max.values) break;
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > deepest) deepest = depth;
      if (++values > max.values || deepest > max.depth) break;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return { depth: deepest, values };
}

/** Returns whether a JSON text nests deeper than may be stored. Reads only as far as needed. */
export function nestsTooDeep(text: string): boolean {
  return measureJson(text, { depth: JSON_DEPTH_MAX, values: Infinity }).depth > JSON_DEPTH_MAX;
}

/** Returns the end of the string that begins at a quote: its closing quote, or the end of the text. */
export function endOfString(text: string, begin: number): number {
  for (let i = begin + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) return i;
    if (code === 0x5c) i++;
  }
  return text.length;
}

/** Returns the JSON Pointer (RFC 6901) of the value at a position of a valid JSON text, without building it. */
export function pointerTo(text: string, place: number): string {
  const path: (string | number)[] = [];
  for (let i = 0; i < place; i++) {
    const char = text[i];
    if (char === '[') path.push(0);
    else if (char === '{') path.push('');
    else if (char === ']' || char === '}') path.pop();
    else if (char === ',') {
      const index = path.at(-1);
      if (typeof index === 'number') path[path.length - 1] = index + 1;
    } else if (char === '"') {
      const end = endOfString(text, i);
      if (isKey(text, end)) path[path.length - 1] = JSON.parse(text.slice(i, end + 1)) as string;
      i = end;
    }
  }
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Returns whether the string that ends here is a key. */
function isKey(text: string, end: number): boolean {
  COLON.lastIndex = end + 1;
  return COLON.test(text);
}
const COLON = /[ \t\r\n]*:/y;

const ESCAPED_NUL_OR_SURROGATE = /\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})/;

/**
 * Prepares a JSON text for Postgres' `json` functions, which refuse an escaped NUL or surrogate.
 * A text that holds either is wrapped as a JSON string of itself. Readers unwrap it with {@link fromStorable}, so the
 * provider gets its own bytes back.
 */
export function toStorable(jsonText: string): string {
  return ESCAPED_NUL_OR_SURROGATE.test(jsonText) ? JSON.stringify(jsonText) : jsonText;
}

/** Unwraps a text of {@link toStorable}. Content is an array or object, so a string is always a wrapping. */
export function fromStorable(stored: string): string {
  return stored.startsWith('"') ? (JSON.parse(stored) as string) : stored;
}

/** Prepares a text for a Postgres `text` column: removes NUL, replaces lone surrogates by U+FFFD. */
export function toStorableText(text: string): string {
  const kept = text.includes('\u0000') ? text.replaceAll('\u0000', '') : text;
  return kept.toWellFormed();
}
