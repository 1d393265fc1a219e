import { isJsonObject, nestsTooDeep, type Json } from '../base/json.ts';

/**
 * Returns the child that a conditional rule maps to a result, or null.
 * Mapping keys are JSON text: an exact match goes first, then a match by meaning (`True` for true, `1` for 1.0).
 */
export function childForResult(
  mapping: Readonly<Record<string, string>>,
  result: string | null,
): string | null {
  const output = textOf(outputOf(result ?? ''));
  const entries = Object.entries(mapping);
  const found = entries.find(([key]) => key === output) ?? entries.find(([key]) => meansTheSame(key, output));
  return found?.[1] ?? null;
}

/**
 * Reads the output of a result: the `message` of Letta's package (`{"status", "message", "time"}`), also from a client
 * tool.
 * Any other object: an empty text. A JSON scalar: its value. An array, or other text: the text itself, like JSON that
 * nests too deep to store.
 */
function outputOf(result: string): Json {
  if (nestsTooDeep(result)) return result;
  let parsed: unknown;
  try {
    parsed = JSON.parse(result);
  } catch {
    return result;
  }
  if (isJsonObject(parsed)) return Object.hasOwn(parsed, 'message') ? (parsed['message'] ?? '') : '';
  // The text of a number may have more digits than JavaScript keeps.
  if (typeof parsed === 'number') return result.trim();
  return Array.isArray(parsed) ? result : (parsed as Json);
}

function textOf(output: Json): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

const BOOLEANS: ReadonlySet<string> = new Set(['true', 'false']);
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

function meansTheSame(key: string, output: string): boolean {
  const wanted = key.trim().toLowerCase();
  const said = output.trim().toLowerCase();
  if (BOOLEANS.has(wanted)) return wanted === said;
  return NUMBER.test(wanted) && NUMBER.test(said) && Number(wanted) === Number(said);
}
