import { toWireId } from '@nightshift/agent-core';
import { listSkippedAgents, readBatch } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkNext, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { shownId, wireId } from '../../schemas/ids.ts';
import { AGENT_ID } from '../../schemas/examples/ids.ts';

const skippedAgent = z
  .object({ agent_id: shownId('agent'), reason: z.string() })
  .meta({ id: 'SkippedAgent', examples: [{ agent_id: AGENT_ID, reason: 'nothing_new' }] });

/** Lists the agents that have no run in a batch, by agent id. */
export function listSkipped(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/skipped`,
    {
      schema: {
        operationId: 'listSkippedAgents',
        summary: 'List the skipped agents of a batch',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          after: wireId('agent').optional().describe('Id of an agent; the page holds the agents after it.'),
          limit: pageLimit(100),
          reason: z.string().optional(),
        }),
        response: { 200: z.array(skippedAgent), ...problems },
      },
    },
    async (request, reply) => {
      const { params, query } = request;
      await readBatch(context.db, context.projectId, params.job_id);
      const rows = await listSkippedAgents(context.db, params.job_id, {
        after: query.after ?? null,
        limit: query.limit,
        reason: query.reason ?? null,
      });
      const agents = rows.map(({ agent_id, reason }) => ({ agent_id: toWireId('agent', agent_id), reason }));
      const last = agents.at(-1);
      if (last !== undefined && agents.length === query.limit)
        linkNext(request, reply, 'after', last.agent_id);
      return agents;
    },
  );
}
