import { ISSUES_MAX, NightshiftError } from '@nightshift/agent-core';
import type { BatchInput } from '../../schemas/batch.ts';

/**
 * Refuses deadlines that have passed by `now`: no run would take a step by them. Throws `validation_failed` that names the
 * fields, a hundred of them at most.
 */
export function assertDeadlinesAhead(body: BatchInput, now: Date): void {
  const hasPassed = (deadline: string | null | undefined): boolean =>
    deadline != null && Date.parse(deadline) <= now.getTime();
  const paths = [
    ...(hasPassed(body.deadline) ? ['/deadline'] : []),
    ...(hasPassed(body.template?.deadline) ? ['/template/deadline'] : []),
    ...(body.requests ?? []).flatMap(({ deadline }, index) =>
      hasPassed(deadline) ? [`/requests/${index}/deadline`] : [],
    ),
  ];
  const [first] = paths;
  if (first === undefined) return;
  const message = `has passed: the database's clock says ${now.toISOString()}`;
  throw new NightshiftError('validation_failed', `${first} ${message}. Nothing was stored.`, {
    fields: paths.slice(0, ISSUES_MAX).map((path) => ({ path, message })),
  });
}
