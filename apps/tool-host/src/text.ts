import { ERROR_CHARS_MAX } from './contract.ts';

/** Cuts `text` to `limit` code units without splitting a surrogate pair. */
export function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const lastUnit = text.charCodeAt(limit - 1);
  return text.slice(0, lastUnit >= 0xd800 && lastUnit <= 0xdbff ? limit - 1 : limit);
}

/**
 * Converts a tool's return value to text within `limit`.
 * Strings are unchanged, other values are JSON, values without JSON (`undefined`, functions) are `null`. Cut text ends in a
 * note with its full length.
 * Throws: TypeError with the reason if the value cannot be written as JSON (cycles, BigInt, too deep, too long).
 */
export function resultText(
  value: unknown,
  limit: number,
): { readonly text: string; readonly truncated: boolean } {
  const text = typeof value === 'string' ? value : jsonText(value);
  if (text.length <= limit) return { text, truncated: false };
  const note = `... [NOTE: function output was truncated since it exceeded the character limit (${text.length} > ${limit})]`;
  return { text: cutText(text, limit) + note, truncated: true };
}

function jsonText(value: unknown): string {
  try {
    // In a list, values without JSON (undefined, functions, symbols) become null.
    return JSON.stringify([value]).slice(1, -1);
  } catch (error) {
    const reason = errorMessage(error).split('\n', 1)[0] ?? '';
    throw new TypeError(
      `the tool returned a value that cannot be written as JSON (${reason}); return plain data or a string`,
    );
  }
}

/** Returns `<type>: <message>` of a thrown value, at most {@link ERROR_CHARS_MAX} long. Never throws. */
export function describeError(thrown: unknown): string {
  return cutText(`${errorType(thrown)}: ${errorMessage(thrown)}`, ERROR_CHARS_MAX);
}

function errorType(thrown: unknown): string {
  try {
    if (thrown instanceof Error || isErrorLike(thrown)) {
      const name: unknown = thrown.name;
      if (typeof name === 'string' && name !== '') return name;
    }
  } catch {
    // A getter threw; the plain type is enough.
  }
  return 'Error';
}

function errorMessage(thrown: unknown): string {
  try {
    if (isErrorLike(thrown)) return thrown.message;
    return typeof thrown === 'object' && thrown !== null ? JSON.stringify(thrown) : String(thrown);
  } catch {
    return 'the thrown value could not be read';
  }
}

function isErrorLike(thrown: unknown): thrown is { readonly name?: unknown; readonly message: string } {
  return (
    typeof thrown === 'object' &&
    thrown !== null &&
    typeof (thrown as { message?: unknown }).message === 'string'
  );
}
