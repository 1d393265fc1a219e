/**
 * What Zod says of a value, without words that only its users know: what was left out is missing, a record is an object, and
 * NaN is what it made of a text that is no number. Other messages stay as they are.
 */
export function inPlainWords(message: string): string {
  const [, expected, received] = /^Invalid input: expected (\w+), received (\w+)$/.exec(message) ?? [];
  if (expected === undefined || received === undefined) return message;
  if (received === 'undefined') return 'is missing';
  const name = expected === 'record' ? 'object' : expected;
  return `Invalid input: expected ${name}${received === 'NaN' ? '' : `, received ${received}`}`;
}
