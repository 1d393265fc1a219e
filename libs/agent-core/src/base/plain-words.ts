/** The message for a value that is no number of JSON: text, or a number that overflows. */
export const NO_NUMBER = 'must be a number of at most 1.8e308, without quotes';

/**
 * Replaces Zod's jargon in an error message: an absent value is missing, a record is an object.
 * NaN comes from a text that is no number. Other messages stay as they are.
 */
export function inPlainWords(message: string): string {
  const [, expected, received] = /^Invalid input: expected (\w+), received (\w+)$/.exec(message) ?? [];
  if (expected === undefined || received === undefined) return message;
  if (received === 'undefined') return 'is missing';
  if (expected === 'int') return 'must be a whole number';
  if (expected === 'number') {
    if (received === 'NaN') return 'must be a number';
    return received === 'string' || received === 'Infinity' ? NO_NUMBER : `must be a number, not ${received}`;
  }
  const name = expected === 'record' ? 'object' : expected;
  return `Invalid input: expected ${name}, received ${received}`;
}
