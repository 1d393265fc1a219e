import { messageKeyOf } from '@nightshift/agent-core';
import { readRun, refuseCursor, type RunRow } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { lettaMessage } from '../../schemas/message.ts';
import { readShownMessages, type ShownMessages } from './shown-messages.ts';

/** Lists the run's own messages, including its input; oldest first by default. */
export function listRunMessages(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id/messages',
    {
      schema: {
        operationId: 'listRunMessages',
        summary: 'List the messages of a run',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        querystring: z.strictObject(pageQuery('message', { limit: 100, order: 'asc' })),
        response: { 200: z.array(lettaMessage), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const run = await readRun(context.db, context.projectId, request.params.run_id);
      const { messages, has_more } = await readRunMessages(context, run, page);
      linkPages(
        request,
        reply,
        messages.map((message) => message.id),
        // The limit counts rows, and a row may be many items.
        { ...page, limit: Infinity },
        has_more,
      );
      return messages.map((message) => ({ ...message }));
    },
  );
}

async function readRunMessages(
  context: Context,
  run: RunRow,
  page: ReturnType<typeof toPage>,
): Promise<ShownMessages> {
  const { first_seq, last_seq } = run;
  const seqOf = (side: 'after' | 'before'): number | null => {
    const cursor = page[side];
    if (cursor === null) return null;
    const { conversation_id, seq } = messageKeyOf(cursor);
    const isOurs = conversation_id === run.conversation_id && first_seq !== null && last_seq !== null;
    return isOurs && seq >= first_seq && seq <= last_seq ? seq : refuseCursor(side);
  };
  const after = seqOf('after');
  const before = seqOf('before');
  if (first_seq === null || last_seq === null) return { messages: [], has_more: false };
  const [above, below] = page.order === 'asc' ? [after, before] : [before, after];
  const reads = (page.order === 'asc') === (page.before === null) ? 'oldest' : 'newest';
  const range = {
    limit: page.limit,
    above: Math.max(above ?? -1, first_seq - 1),
    below: Math.min(below ?? Infinity, last_seq + 1),
    from: reads,
  } as const;
  const shown = await readShownMessages(context, run.conversation_id, range, run.agent_id);
  return page.order === 'asc' ? shown : { ...shown, messages: shown.messages.toReversed() };
}
