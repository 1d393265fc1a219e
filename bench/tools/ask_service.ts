// Waits for a service nearly all of its time, as most tools do.
import { setTimeout } from 'node:timers/promises';
import { description, parameters, run as lookUp } from './look_up.ts';

export { description, parameters };
export const sideEffects = 'none';

const WAIT_MS = 100;

export async function run(args: Record<string, unknown>): Promise<string> {
  await setTimeout(WAIT_MS);
  return lookUp(args);
}
