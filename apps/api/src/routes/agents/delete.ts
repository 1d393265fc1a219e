import { toWireId } from '@nightshift/agent-core';
import { deleteAgent as commitDelete, inTransaction } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { AGENT_ID } from '../../schemas/examples/ids.ts';

const deletedAgent = z
  .object({ message: z.string() })
  .meta({ id: 'DeletedAgent', examples: [{ message: `Agent id=${AGENT_ID} successfully deleted` }] });

export function deleteAgent(app: App, context: Context): void {
  app.delete(
    '/v1/agents/:agent_id',
    {
      schema: {
        operationId: 'deleteAgent',
        summary: 'Delete an agent',
        description: 'Runs in progress continue to their end; the results of its batches stay.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        response: { 200: deletedAgent, ...problems },
      },
    },
    async (request) => {
      const { agent_id } = request.params;
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, agent_id));
      return { message: `Agent id=${toWireId('agent', agent_id)} successfully deleted` };
    },
  );
}
