import { toWireId } from '@nightshift/agent-core';
import { listFailures } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { failedRun } from '../../schemas/failure.ts';
import { moment } from '../../schemas/moment.ts';

const { order_by: _orderBy, ...pageOfRuns } = pageQuery('run', { limit: 100, order: 'desc' });

/** Lists the failed runs of all batches by the time of their end. */
export function listFailedRuns(app: App, context: Context): void {
  app.get(
    '/v1/errors',
    {
      schema: {
        operationId: 'listFailedRuns',
        summary: 'List the failed runs of all batches',
        description:
          'Runs that failed, expired or were cancelled, the last first. GET /v1/batches/{job_id}/errors groups those of ' +
          'one batch. Beyond Letta.',
        tags: ['runs'],
        querystring: z.strictObject({
          ...pageOfRuns,
          since: moment.optional().describe('Runs that ended then or later.'),
          until: moment.optional().describe('Runs that ended earlier.'),
        }),
        response: { 200: z.array(failedRun), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const { since = null, until = null } = request.query;
      const { rows, is_cut } = await listFailures(context.db, context.projectId, page, { since, until });
      const failures = rows.map(({ run_id, batch_id, agent_id, failed_at, ...failure }) => ({
        run_id: toWireId('run', run_id),
        batch_id: toWireId('job', batch_id),
        agent_id: toWireId('agent', agent_id),
        failed_at: failed_at.toISOString(),
        ...failure,
      }));
      linkPages(
        request,
        reply,
        failures.map(({ run_id }) => run_id),
        page,
        is_cut,
      );
      return failures;
    },
  );
}
