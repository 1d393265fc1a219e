import { inTransaction, resetMessages as commitReset } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

const initialMessages = z.boolean().nullish().describe('Ignored: every request shows the system prompt.');

const resetInput = z
  .strictObject({ add_default_initial_messages: initialMessages })
  .meta({ id: 'MessagesReset', examples: [{}] });

/** Clears an agent's conversation. As in Letta 1.x, the answer is `null`. */
export function resetMessages(app: App, context: Context): void {
  app.patch(
    '/v1/agents/:agent_id/reset-messages',
    {
      schema: {
        operationId: 'resetMessages',
        summary: "Clear an agent's conversation",
        description:
          "Later runs, their searches and the agent's message list no longer see the earlier messages. Runs and batches " +
          'still answer their messages; blocks and archival memory stay as they are. Refused with 409 while a run is ' +
          'active in the conversation.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        // Letta's client 0.1 sends the field in the query.
        querystring: z.strictObject({ add_default_initial_messages: initialMessages }),
        body: resetInput.nullish(),
        response: { 200: nullAnswer, ...problems },
      },
    },
    async (request) => {
      await inTransaction(context.db, (trx) => commitReset(trx, context.projectId, request.params.agent_id));
      return null;
    },
  );
}
