import { REASKS_MAX } from '../rules/loop.ts';

/**
 * Returns the maximum number of steps of a run, summaries aside. Without tools it ends in words, which may be re-asked.
 */
export function stepsMax(run: { readonly max_steps: number; readonly has_tools: boolean }): number {
  return run.has_tools ? run.max_steps : Math.min(run.max_steps, 1 + REASKS_MAX);
}
