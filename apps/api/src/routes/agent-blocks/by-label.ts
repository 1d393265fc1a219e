import { listAgentBlocks as readPage, readAgent, readAgentBlock } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { blockPatch, blockResponse } from '../../schemas/block.ts';
import { wireId } from '../../schemas/ids.ts';
import { toBlockResponse } from '../../wire/to-block.ts';
import { patchBlock } from '../blocks/patch-block.ts';

const ofLabel = z.object({ agent_id: wireId('agent'), label: z.string().min(1) });

export function listAgentBlocks(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/core-memory/blocks',
    {
      schema: {
        operationId: 'listAgentBlocks',
        summary: "List an agent's blocks",
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject(pageQuery('block', { limit: 100, order: 'desc' })),
        response: { 200: z.array(blockResponse), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const agent = await readAgent(context.db, context.projectId, request.params.agent_id);
      const { rows, is_cut } = await readPage(context.db, agent.id, page);
      const blocks = rows.map(toBlockResponse);
      linkPages(
        request,
        reply,
        blocks.map((block) => block.id),
        page,
        is_cut,
      );
      return blocks;
    },
  );
}

export function retrieveAgentBlock(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/core-memory/blocks/:label',
    {
      schema: {
        operationId: 'retrieveAgentBlock',
        summary: "Read an agent's block by its label",
        tags: ['agents'],
        params: ofLabel,
        response: { 200: blockResponse, ...problems },
      },
    },
    async (request) => {
      const agent = await readAgent(context.db, context.projectId, request.params.agent_id);
      return toBlockResponse(await readAgentBlock(context.db, agent.id, request.params.label));
    },
  );
}

export function updateAgentBlock(app: App, context: Context): void {
  app.patch(
    '/v1/agents/:agent_id/core-memory/blocks/:label',
    {
      schema: {
        operationId: 'updateAgentBlock',
        summary: "Change an agent's block by its label, as a new revision",
        tags: ['agents'],
        params: ofLabel,
        body: blockPatch,
        response: { 200: blockResponse, ...problems },
      },
    },
    async (request) => {
      const { agent_id, label } = request.params;
      await readAgent(context.db, context.projectId, agent_id);
      const block = await readAgentBlock(context.db, agent_id, label);
      return toBlockResponse(await patchBlock(context, block.id, request.body, { agent_id, label }));
    },
  );
}
