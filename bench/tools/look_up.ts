// Imports nothing, as an operator's tool module: gives the same answer as `lookUp` of the workload.
export const description = 'Looks a customer up. Give the customer and what you want to know.';
export const sideEffects = 'none';

export const parameters = {
  type: 'object',
  properties: { customer: { type: 'string' }, question: { type: 'string' }, depth: { type: 'integer' } },
  required: ['customer', 'question'],
  additionalProperties: false,
} as const;

export function run(args: Record<string, unknown>): string {
  return `record of ${String(args['customer'])} at depth ${String(args['depth'])}: `
    .padEnd(214, 'paid; ')
    .slice(0, 214);
}
