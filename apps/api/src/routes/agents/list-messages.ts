import { messageKeyOf, toLettaMessages } from '@nightshift/agent-core';
import { listConversationMessages, readAgent, readToolNames } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { pageQuery } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { lettaMessage } from '../../schemas/message.ts';
import { toStoredMessage } from '../../wire/to-stored-message.ts';

/**
 * An agent's conversation. The one list with rules of its own, which are Letta's: always chronological, `after` is newer and
 * `before` older whatever the order, and `order` says at which end `limit` cuts. `limit` counts stored messages; the items of
 * one are never split.
 */
export function listAgentMessages(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/messages',
    {
      schema: {
        operationId: 'listAgentMessages',
        summary: "List the messages of an agent's conversation",
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject({
          ...pageQuery('message', { limit: 100, order: 'desc' }),
          include_err: z.boolean().optional(),
          use_assistant_message: z.boolean().default(true),
          assistant_message_tool_name: z.string().optional(),
          assistant_message_tool_kwarg: z.string().optional(),
        }),
        response: { 200: z.array(lettaMessage), ...problems },
      },
    },
    async (request) => {
      const { query } = request;
      const agent = await readAgent(context.db, context.projectId, request.params.agent_id);
      // A message of another conversation is no place in this one.
      const seqOf = (cursor: string | undefined): number | null => {
        if (cursor === undefined) return null;
        const key = messageKeyOf(cursor);
        return key.conversation_id === agent.conversation_id ? key.seq : null;
      };
      const { rows } = await listConversationMessages(context.db, agent.conversation_id, {
        limit: query.limit,
        above: seqOf(query.after),
        below: seqOf(query.before),
        from: query.order === 'desc' ? 'newest' : 'oldest',
      });
      const tool_names = await readToolNames(context.db, rows);
      return rows.flatMap((row) =>
        toLettaMessages(toStoredMessage(row, agent.id, null), {
          use_assistant_message: query.use_assistant_message,
          tool_names,
        }).map((message) => ({ ...message })),
      );
    },
  );
}
