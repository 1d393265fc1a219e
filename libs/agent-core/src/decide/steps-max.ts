import { REASKS_MAX } from '../rules/loop.ts';

/** The most steps that a run can take, summaries aside: one without tools ends in words, for which it may be asked again. */
export function stepsMax(run: { readonly max_steps: number; readonly has_tools: boolean }): number {
  return run.has_tools ? run.max_steps : Math.min(run.max_steps, 1 + REASKS_MAX);
}
