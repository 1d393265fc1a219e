import { toInternalMessage } from '@nightshift/agent-core';
import { listBatchMessages as readPage, readBatch, readReturnedCalls } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { internalMessage } from '../../schemas/message.ts';
import { toStoredMessage } from '../../wire/to-stored-message.ts';
import { INTERNAL_MESSAGE } from '../../schemas/examples/batches.ts';

const batchMessages = z
  .object({ messages: z.array(internalMessage) })
  .meta({ id: 'BatchMessages', examples: [{ messages: [INTERNAL_MESSAGE] }] });

/** Lists the messages of a batch, inputs included, in the order of its requests. */
export function listBatchMessages(app: App, context: Context, path: string, hide: boolean): void {
  app.get(
    `${path}/:job_id/messages`,
    {
      schema: {
        operationId: 'listBatchMessages',
        summary: 'List the messages of a batch',
        description: 'Sorted by request, then by time; `desc` reverses the order.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        querystring: z.strictObject({
          ...pageQuery('message', { limit: 100, order: 'desc' }),
          agent_id: wireId('agent').optional(),
          custom_id: z.string().optional().describe("The caller's id of a request. Beyond Letta."),
          cursor: wireId('message').optional().describe('Older name of `after`.'),
          sort_descending: z.boolean().optional().describe('Older name of `order`.'),
        }),
        response: { 200: batchMessages, ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { agent_id, custom_id, cursor, sort_descending, ...query } = request.query;
      const page = {
        ...toPage({
          ...query,
          after: query.after ?? cursor,
          order: sort_descending === undefined ? query.order : sort_descending ? 'desc' : 'asc',
        }),
        after_name: query.after === undefined ? 'cursor' : 'after',
      };
      await readBatch(context.db, context.projectId, job_id);
      const { rows, is_cut } = await readPage(context.db, job_id, page, {
        agent_id: agent_id ?? null,
        custom_id: custom_id ?? null,
      });
      const answered = await readReturnedCalls(context.db, rows);
      const messages = rows.map((row) => ({
        ...toInternalMessage(toStoredMessage(row, row.agent_id), answered),
        custom_id: row.custom_id,
      }));
      linkPages(
        request,
        reply,
        messages.map((message) => message.id),
        page,
        is_cut,
      );
      return { messages };
    },
  );
}
