import { appendFileSync } from 'node:fs';

// A tool with an effect that can be counted: it appends a line for each execution.
export const description = 'Charges a card. Must happen once.';
export const parameters = {
  type: 'object',
  properties: { ledger: { type: 'string' }, amount: { type: 'integer' } },
  required: ['ledger', 'amount'],
  additionalProperties: false,
} as const;
export const sideEffects = 'once';

export function run(args: Record<string, unknown>, context: { readonly idempotencyKey: string }): string {
  appendFileSync(String(args['ledger']), `${context.idempotencyKey} ${String(args['amount'])}\n`);
  return `charged ${String(args['amount'])}`;
}
