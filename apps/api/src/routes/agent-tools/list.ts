import { listAgentTools as readPage, readAgent } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { toolResponse } from '../../schemas/tool.ts';
import { toToolResponse } from '../../wire/to-tool.ts';

export function listAgentTools(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/tools',
    {
      schema: {
        operationId: 'listAgentTools',
        summary: "List an agent's tools",
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject(pageQuery('tool', { limit: 10, order: 'desc' })),
        response: { 200: z.array(toolResponse), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const agent = await readAgent(context.db, context.projectId, request.params.agent_id);
      const { rows, is_cut } = await readPage(context.db, agent.id, page);
      const tools = rows.map(toToolResponse);
      linkPages(
        request,
        reply,
        tools.map((tool) => tool.id),
        page,
        is_cut,
      );
      return tools;
    },
  );
}
