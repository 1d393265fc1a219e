import { NightshiftError } from '@nightshift/agent-core';
import { runChecks } from '../../checks/run-checks.ts';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { checksQuery, checksResponse, type Check } from '../../schemas/checks.ts';

const DAY_MS = 86_400_000;
const DAYS_MAX = 7;

interface Checked {
  readonly checked_at: string;
  readonly checks: Check[];
}

/**
 * Checks the installation: database, queue, workers, provider keys, clocks, books, prices, and what schedules will meet. Checks
 * take a connection each, so concurrent requests for one time share theirs, and requests for other times wait for their end.
 */
export function retrieveChecks(app: App, context: Context): void {
  const underWay = new Map<string | undefined, Promise<Checked>>();
  let last: Promise<unknown> = Promise.resolve();
  const checked = (at: string | undefined): Promise<Checked> => {
    const until = untilOf(at, new Date());
    const shared = underWay.get(at);
    if (shared !== undefined) return shared;
    const run = last.then(async () => {
      const checked_at = new Date().toISOString();
      return { checked_at, checks: await runChecks(context, until) };
    });
    underWay.set(at, run);
    const end = () => underWay.delete(at);
    last = run.then(end, end);
    return run;
  };
  app.get(
    '/v1/admin/checks',
    {
      schema: {
        operationId: 'retrieveChecks',
        summary: 'Check the installation',
        description:
          'Each check reads at most for a few seconds. A check that fails is a finding, not an error.',
        tags: ['admin'],
        querystring: checksQuery,
        response: { 200: checksResponse, ...problems },
      },
    },
    async (request) => {
      const { checked_at, checks } = await checked(request.query.at);
      return {
        object: 'checks' as const,
        checked_at,
        version: context.version,
        ok: checks.every(({ status }) => status !== 'failing'),
        checks,
      };
    },
  );
}

/** Returns the end of the look at schedules. Throws: `validation_failed` for a past or distant time. */
function untilOf(at: string | undefined, now: Date): Date {
  if (at === undefined) return new Date(now.getTime() + DAY_MS);
  const until = new Date(at);
  const ahead = until.getTime() - now.getTime();
  if (ahead > 0 && ahead <= DAYS_MAX * DAY_MS) return until;
  const message = `must be in the next ${DAYS_MAX} days`;
  throw new NightshiftError('validation_failed', `at ${message}.`, { fields: [{ path: 'at', message }] });
}
