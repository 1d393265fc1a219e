import { messageKeyOf } from '@nightshift/agent-core';
import { readAgent, readContextSeqs, refuseCursor } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkNext, pageQuery } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { lettaMessage } from '../../schemas/message.ts';
import { readShownMessages } from '../runs/shown-messages.ts';

/**
 * Lists an agent's conversation since its last reset, always in chronological order.
 * As in Letta, `after` is newer and `before` older whatever the order, and `order` chooses the end at which `limit` cuts.
 * `limit` counts stored messages; the items of a message are never split. The `Link` header continues from the cut end.
 */
export function listAgentMessages(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/messages',
    {
      schema: {
        operationId: 'listAgentMessages',
        summary: "List the messages of an agent's conversation",
        description: "Messages since the agent's last reset.",
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject({
          ...pageQuery('message', { limit: 100, order: 'desc' }),
          include_err: z.boolean().optional(),
          use_assistant_message: z.boolean().default(true),
          assistant_message_tool_name: z
            .string()
            .default('send_message')
            .describe('For use_assistant_message: the tool whose calls are shown as assistant messages.'),
          assistant_message_tool_kwarg: z
            .string()
            .default('message')
            .describe("The tool's argument that holds the message text."),
        }),
        response: { 200: z.array(lettaMessage), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const agent = await readAgent(context.db, context.projectId, request.params.agent_id);
      const { reset_seq, last_seq } = await readContextSeqs(context.db, agent.conversation_id);
      const seqOf = (side: 'after' | 'before'): number | null => {
        const cursor = query[side];
        if (cursor === undefined) return null;
        const { conversation_id, seq } = messageKeyOf(cursor);
        const isOurs = conversation_id === agent.conversation_id && seq > 0 && seq <= last_seq;
        return isOurs ? seq : refuseCursor(side);
      };
      const isAscending = query.order === 'asc';
      const range = {
        limit: query.limit,
        above: Math.max(reset_seq, seqOf('after') ?? 0),
        below: seqOf('before'),
        from: isAscending ? 'oldest' : 'newest',
      } as const;
      const { messages, has_more } = await readShownMessages(
        context,
        agent.conversation_id,
        range,
        agent.id,
        query,
      );
      const last = messages.at(isAscending ? -1 : 0);
      if (has_more && last !== undefined) linkNext(request, reply, isAscending ? 'after' : 'before', last.id);
      return messages.map((message) => ({ ...message }));
    },
  );
}
