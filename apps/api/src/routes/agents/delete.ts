import { toWireId } from '@nightshift/agent-core';
import { deleteAgent as commitDelete, inTransaction } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

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
        response: { 200: z.object({ message: z.string() }), ...problems },
      },
    },
    async (request) => {
      const { agent_id } = request.params;
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, agent_id));
      return { message: `Agent id=${toWireId('agent', agent_id)} successfully deleted` };
    },
  );
}
