import { inTransaction, resetMessages as commitReset } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

const initialMessages = z
  .boolean()
  .nullish()
  .describe('Means nothing here: every request shows the system prompt.');

/** Makes an agent forget its conversation. As in Letta 1.x, the answer is `null`. */
export function resetMessages(app: App, context: Context): void {
  app.patch(
    '/v1/agents/:agent_id/reset-messages',
    {
      schema: {
        operationId: 'resetMessages',
        summary: "Start an agent's conversation afresh",
        description:
          'Later runs see nothing of what was said so far, their searches find nothing of it, and the list of the messages of the agent leaves it out. ' +
          'Runs and batches still answer their messages; blocks and archival memory stay as they are. Refused with 409 while a run goes on in the conversation.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        // Letta's client 0.1 says it in the query.
        querystring: z.strictObject({ add_default_initial_messages: initialMessages }),
        body: z.strictObject({ add_default_initial_messages: initialMessages }).nullish(),
        response: { 200: z.null(), ...problems },
      },
    },
    async (request) => {
      await inTransaction(context.db, (trx) => commitReset(trx, context.projectId, request.params.agent_id));
      return null;
    },
  );
}
