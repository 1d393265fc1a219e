// What most tools are like: nearly all of its time it waits for somebody else.
import { setTimeout } from 'node:timers/promises';
import { description, parameters, run as lookUp } from './look_up.ts';

export { description, parameters };
export const sideEffects = 'none';

const WAIT_MS = 100;

export async function run(args: Record<string, unknown>): Promise<string> {
  await setTimeout(WAIT_MS);
  return lookUp(args);
}
