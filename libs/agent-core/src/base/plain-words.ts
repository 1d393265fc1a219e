/**
 * Replaces Zod's jargon in an error message: an absent value is missing, a record is an object.
 * NaN comes from a text that is no number. Other messages stay as they are.
 */
export function inPlainWords(message: string): string {
  const [, expected, received] = /^Invalid input: expected (\w+), received (\w+)$/.exec(message) ?? [];
  if (expected === undefined || received === undefined) return message;
  if (received === 'undefined') return 'is missing';
  const name = expected === 'record' ? 'object' : expected;
  return `Invalid input: expected ${name}${received === 'NaN' ? '' : `, received ${received}`}`;
}
