/** Values that JSON can carry. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Deepest nesting that is stored; Postgres' own parser fails near 6,000 and JavaScript's printer near 10,000. */
export const JSON_DEPTH_MAX = 128;

/** True for an object that is neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What a JSON text comes to: how deep it nests (an array of scalars is 1 deep), and how many values it holds. */
export interface JsonMeasure {
  readonly depth: number;
  readonly values: number;
}

/**
 * Measures a JSON text without building it; an empty list or object counts as two values. Stops past either bound, so a
 * hostile text costs no more than its length.
 */
export function measureJson(text: string, max: JsonMeasure): JsonMeasure {
  let depth = 0;
  let deepest = 0;
  // The first value of all, and then one for each bracket and comma: what comes after them.
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

/** True for a JSON text that nests deeper than what is stored. Reads no further than to there. */
export function nestsTooDeep(text: string): boolean {
  return measureJson(text, { depth: JSON_DEPTH_MAX, values: Infinity }).depth > JSON_DEPTH_MAX;
}

/** Where the string ends that begins at a quote of a JSON text: at its other quote, or with the text. */
export function endOfString(text: string, begin: number): number {
  for (let i = begin + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) return i;
    if (code === 0x5c) i++;
  }
  return text.length;
}

/** The JSON Pointer (RFC 6901) of the value that stands at a place of a valid JSON text, read without building it. */
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

/** Whether the string that ends here is the key of what follows. */
function isKey(text: string, end: number): boolean {
  COLON.lastIndex = end + 1;
  return COLON.test(text);
}
const COLON = /[ \t\r\n]*:/y;

const ESCAPED_NUL_OR_SURROGATE = /\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})/;

/**
 * The same content in a form that Postgres' `json` functions can take apart: a text that holds an escaped NUL or
 * surrogate (which they refuse) is wrapped once more, as a JSON string of itself. Readers unwrap with
 * {@link fromStorable}, so what is echoed to the provider is what came, to the byte.
 */
export function toStorable(jsonText: string): string {
  return ESCAPED_NUL_OR_SURROGATE.test(jsonText) ? JSON.stringify(jsonText) : jsonText;
}

/** Undoes {@link toStorable}. Content is always an array or object, so a string can only be a wrapping. */
export function fromStorable(stored: string): string {
  return stored.startsWith('"') ? (JSON.parse(stored) as string) : stored;
}

/** Text that a Postgres `text` column takes: NUL removed, lone surrogates replaced by U+FFFD. */
export function toStorableText(text: string): string {
  const kept = text.includes('\u0000') ? text.replaceAll('\u0000', '') : text;
  return kept.toWellFormed();
}
