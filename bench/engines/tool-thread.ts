import { run } from '../tools/look_up.ts';

/** Runs calls of the module tool in a Piscina thread. */
export function runCalls(calls: readonly Record<string, unknown>[]): readonly string[] {
  return calls.map((args) => run(args));
}
