// Imports nothing, as an operator's tool module. A page and its call have about 1,000 tokens of four bytes.
export const description = 'Reads one page of the file of a customer. Give the number of the page.';
export const sideEffects = 'none';

export const parameters = {
  type: 'object',
  properties: { page: { type: 'integer' } },
  required: ['page'],
  additionalProperties: false,
} as const;

const PAGE_CHARS = 3_700;

export function run(args: Record<string, unknown>): string {
  return `Page ${String(args['page'])}: `.padEnd(
    PAGE_CHARS,
    'the customer paid in time and asked for nothing; ',
  );
}
