import { listMemoryChanges as readPage, readBatch } from '@nightshift/db';
import { z } from 'zod';
import { mapYielding } from '../../yielding.ts';
import type { App, Context } from '../../context.ts';
import { CHANGES_MAX, linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { UUID, wireId } from '../../schemas/ids.ts';
import { memoryChange } from '../../schemas/memory.ts';
import { toMemoryChange, toRevisionKey } from '../../wire/to-memory-change.ts';

const changeId = z
  .string()
  .regex(new RegExp(`^block-${UUID}@[1-9][0-9]{0,8}$`), 'must be block-<uuid>@<revision>')
  .transform(toRevisionKey);

/** Lists the memory writes of a batch's tool calls, as unified diffs. */
export function listMemoryChanges(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/memory-changes`,
    {
      schema: {
        operationId: 'listMemoryChanges',
        summary: 'List the memory writes of a batch, as diffs',
        description:
          'Sorted by block, then by revision. Each item compares a write with the text it replaced.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          after: changeId.optional().describe('Id of an item; the page holds the items after it.'),
          before: changeId.optional().describe('Id of an item; the page holds the items just before it.'),
          limit: pageLimit(50, CHANGES_MAX),
          order: z.enum(['asc', 'desc']).default('asc'),
          agent_id: wireId('agent').optional(),
          block_id: wireId('block').optional(),
          shrunk: z
            .boolean()
            .default(false)
            .describe('True: only writes that removed three fifths of a text of at least 200 characters.'),
        }),
        response: { 200: z.array(memoryChange), ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { after = null, before = null, limit, order, shrunk, ...query } = request.query;
      await readBatch(context.db, context.projectId, job_id);
      const filter = { agent_id: query.agent_id ?? null, block_id: query.block_id ?? null, shrunk };
      const { rows, is_cut } = await readPage(context.db, job_id, { after, before, limit, order }, filter);
      const changes = await mapYielding(rows, toMemoryChange);
      linkPages(
        request,
        reply,
        changes.map((change) => change.id),
        { limit, order, after: after === null ? null : '', before: before === null ? null : '' },
        is_cut,
      );
      return changes;
    },
  );
}
