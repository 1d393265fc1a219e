import { listOf } from '@nightshift/agent-core';
import { listAgents as readAgents, listBlocks as readPage, readBlock } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { QUERY_LIST_MAX } from '../../query.ts';
import { agentState } from '../../schemas/agent.ts';
import { problems } from '../../schemas/answers.ts';
import { blockResponse } from '../../schemas/block.ts';
import { wireId } from '../../schemas/ids.ts';
import { readAgentStates } from '../../wire/to-agent-state.ts';
import { toBlockResponse } from '../../wire/to-block.ts';
import { includeQuery, toInclude } from '../agents/read.ts';

export function retrieveBlock(app: App, context: Context): void {
  app.get(
    '/v1/blocks/:block_id',
    {
      schema: {
        operationId: 'retrieveBlock',
        summary: 'Read a block',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        response: { 200: blockResponse, ...problems },
      },
    },
    async (request) =>
      toBlockResponse(await readBlock(context.db, context.projectId, request.params.block_id)),
  );
}

export function listBlocks(app: App, context: Context): void {
  app.get(
    '/v1/blocks',
    {
      schema: {
        operationId: 'listBlocks',
        summary: 'List blocks, oldest first',
        tags: ['blocks'],
        querystring: z.strictObject({
          ...pageQuery('block', { limit: 50, order: 'asc' }),
          label: z.string().max(100).optional(),
          label_search: z.string().optional(),
          value_search: z.string().optional(),
          description_search: z.string().optional(),
          templates_only: z
            .boolean()
            .optional()
            .describe('True: templates only. False (default): no templates.'),
          connected_to_agents_count_gt: z.int().optional(),
          connected_to_agents_count_lt: z.int().optional(),
          connected_to_agents_count_eq: listOf(z.int(), QUERY_LIST_MAX).optional(),
        }),
        response: { 200: z.array(blockResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const page = toPage(query);
      const { rows, is_cut } = await readPage(context.db, context.projectId, page, {
        label: query.label ?? null,
        label_part: query.label_search ?? null,
        value_part: query.value_search ?? null,
        description_part: query.description_search ?? null,
        is_template: query.templates_only ?? false,
        agents_above: query.connected_to_agents_count_gt ?? null,
        agents_below: query.connected_to_agents_count_lt ?? null,
        agents_equal: query.connected_to_agents_count_eq ?? [],
      });
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

export function listAgentsOfBlock(app: App, context: Context): void {
  app.get(
    '/v1/blocks/:block_id/agents',
    {
      schema: {
        operationId: 'listAgentsOfBlock',
        summary: 'List the agents that have a block, hidden ones too',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        querystring: z.strictObject({ ...pageQuery('agent', { limit: 50, order: 'desc' }), ...includeQuery }),
        response: { 200: z.array(agentState), ...problems },
      },
    },
    async (request, reply) => {
      const { block_id } = request.params;
      const page = toPage(request.query);
      await readBlock(context.db, context.projectId, block_id);
      const include = toInclude(request.query);
      const filter = { name: null, name_part: null, tags: [], all_tags: false, block_id };
      const { rows, is_cut } = await readAgents(
        context.db,
        context.projectId,
        page,
        filter,
        'created_at',
        include,
      );
      const agents = await readAgentStates(context.db, rows, include);
      linkPages(
        request,
        reply,
        agents.map((agent) => agent.id),
        page,
        is_cut,
      );
      return [...agents];
    },
  );
}
