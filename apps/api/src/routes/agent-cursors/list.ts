import { listCursors as readAll, readAgent } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { cursor } from '../../schemas/cursor.ts';
import { wireId } from '../../schemas/ids.ts';
import { toCursor } from '../../wire/to-cursor.ts';

/** Lists all cursors of an agent; an agent has a few. */
export function listCursors(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/cursors',
    {
      schema: {
        operationId: 'listCursors',
        summary: 'List the cursors of an agent',
        description:
          'A cursor is the last message of the conversation that completed runs of its name have handled. It moves when a ' +
          'run ends as `end_turn` or `tool_rule` and its changes are in force. By name.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject({}),
        response: { 200: z.array(cursor), ...problems },
      },
    },
    async (request) => {
      const { agent_id } = request.params;
      await readAgent(context.db, context.projectId, agent_id);
      return (await readAll(context.db, context.projectId, agent_id)).map(toCursor);
    },
  );
}
