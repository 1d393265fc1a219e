import { stepKeyOf } from '@nightshift/agent-core';
import { listToolCalls as readPage, readRun, refuseCursor, type CallPlace } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageLimit } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { toolCallCursor, toolCallResponse } from '../../schemas/tool-call.ts';
import { toToolCallResponse } from '../../wire/to-tool-call.ts';

/** Lists the tool calls of a run, oldest first by default. */
export function listToolCalls(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id/tool-calls',
    {
      schema: {
        operationId: 'listToolCallsOfRun',
        summary: 'List the tool calls of a run',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        querystring: z.strictObject({
          after: toolCallCursor.optional(),
          before: toolCallCursor.optional(),
          limit: pageLimit(100),
          order: z.enum(['asc', 'desc']).default('asc'),
          include: z
            .literal('result')
            .optional()
            .describe('Whole results instead of their first characters.'),
        }),
        response: { 200: z.array(toolCallResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { after, before, limit, order, include } = request.query;
      const run = await readRun(context.db, context.projectId, request.params.run_id);
      const page = { limit, order, after: after ?? null, before: before ?? null };
      const { rows, is_cut } = await readPage(context.db, run.id, {
        ...page,
        after: placeOf(run.id, 'after', page.after),
        before: placeOf(run.id, 'before', page.before),
      });
      const calls = rows.map((row) => toToolCallResponse(run.id, row, include !== undefined));
      linkPages(
        request,
        reply,
        calls.map(({ id }) => id),
        page,
        is_cut,
      );
      return calls;
    },
  );
}

/** Reads the place of a call in its run from its id. Throws: `validation_failed` for a call of another run. */
function placeOf(runId: string, side: 'after' | 'before', id: string | null): CallPlace | null {
  if (id === null) return null;
  const end = id.lastIndexOf(':');
  const key = stepKeyOf(id.slice('step-'.length, end));
  return key.run_id === runId
    ? { number: key.number, call_index: Number(id.slice(end + 1)) }
    : refuseCursor(side);
}
