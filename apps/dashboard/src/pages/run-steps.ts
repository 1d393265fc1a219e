import type { Run, Step } from '@nightshift/client';
import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';

/** Steps that are read: a run has at most a thousand, and attempts come on top. */
const STEPS_MAX = 2_000;

/** Reads the attempts of the steps of a run, oldest first. */
export function useSteps(run: Run): UseQueryResult<readonly Step[]> {
  return useQuery({
    queryKey: ['run', run.id, 'steps', run.state, run.usage.steps, run.attempts],
    queryFn: () =>
      Array.fromAsync(nightshift.runs.steps(run.id, { order: 'asc', limit: 100 })).then((all) =>
        all.slice(0, STEPS_MAX),
      ),
    placeholderData: keepPreviousData,
  });
}

/** Names an attempt of a step. */
export function nameOfStep({ number, attempt, is_summary }: Step): string {
  const name = is_summary ? 'Summary' : `Step ${number}`;
  return attempt > 1 ? `${name}, attempt ${attempt}` : name;
}
