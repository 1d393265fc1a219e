// Waits as long as it is told, beside all other calls.
import { setTimeout } from 'node:timers/promises';

export const description = 'Waits.';
export const sideEffects = 'none';
export const concurrency = 2_000;
export const timeoutMs = 60_000;
export const parameters = {
  type: 'object',
  properties: { ms: { type: 'integer' } },
  required: ['ms'],
  additionalProperties: false,
} as const;

export async function run(args: Record<string, unknown>): Promise<string> {
  await setTimeout(Number(args['ms']));
  return 'waited';
}
