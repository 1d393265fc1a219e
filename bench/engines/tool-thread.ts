import { run } from '../tools/look_up.ts';

export function runCalls(calls: readonly Record<string, unknown>[]): readonly string[] {
  return calls.map((args) => run(args));
}
