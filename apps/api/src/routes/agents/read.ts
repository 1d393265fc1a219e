import { listOf } from '@nightshift/agent-core';
import { listAgents as readPage, readAgent, type AgentRelations } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { QUERY_LIST_MAX } from '../../query.ts';
import { agentState } from '../../schemas/agent.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { readAgentState, readAgentStates } from '../../wire/to-agent-state.ts';

const INCLUDES = [
  'agent.blocks',
  'agent.tools',
  'agent.tags',
  'agent.secrets',
  'agent.sources',
  'agent.identities',
  'agent.managed_group',
] as const;

/** Letta's query parameters for the relations in an answer. */
export const includeQuery = {
  include: listOf(z.enum(INCLUDES), QUERY_LIST_MAX).optional(),
  include_relationships: listOf(z.string(), QUERY_LIST_MAX).optional().describe('Older name of `include`.'),
};

/** Chooses the relations of a list. Blocks and tools are large, so they are opt-in. */
export function toInclude(query: {
  readonly include?: readonly string[] | undefined;
  readonly include_relationships?: readonly string[] | undefined;
}): AgentRelations {
  const wanted = [...(query.include ?? []), ...(query.include_relationships ?? [])];
  return {
    blocks: wanted.some((name) => name === 'agent.blocks' || name === 'memory' || name === 'blocks'),
    tools: wanted.some((name) => name === 'agent.tools' || name === 'tools'),
  };
}

/** Answers an agent with all its relations, whatever `include` says. */
export function retrieveAgent(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id',
    {
      schema: {
        operationId: 'retrieveAgent',
        summary: 'Read an agent',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject(includeQuery),
        response: { 200: agentState, ...problems },
      },
    },
    async (request) =>
      readAgentState(context.db, await readAgent(context.db, context.projectId, request.params.agent_id)),
  );
}

export function listAgents(app: App, context: Context): void {
  app.get(
    '/v1/agents',
    {
      schema: {
        operationId: 'listAgents',
        summary: 'List agents',
        tags: ['agents'],
        querystring: z.strictObject({
          ...pageQuery('agent', { limit: 50, order: 'desc' }),
          order_by: z
            .enum(['created_at', 'updated_at'])
            .optional()
            .describe(
              'A cursor follows its agent: when paging by updated_at, an agent that changes meanwhile may be skipped or ' +
                'repeated.',
            ),
          name: z.string().optional(),
          query_text: z.string().optional().describe('Part of the name.'),
          tags: listOf(z.string(), QUERY_LIST_MAX).optional(),
          match_all_tags: z.boolean().default(false),
          ascending: z.boolean().optional().describe('Older form of `order`.'),
          sort_by: z.enum(['created_at', 'updated_at']).optional().describe('Older form of `order_by`.'),
          ...includeQuery,
        }),
        response: { 200: z.array(agentState), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const order = query.ascending === undefined ? query.order : query.ascending ? 'asc' : 'desc';
      const page = toPage({ ...query, order });
      const filter = {
        name: query.name ?? null,
        name_part: query.query_text ?? null,
        tags: query.tags ?? [],
        all_tags: query.match_all_tags,
        block_id: null,
      };
      const include = toInclude(query);
      const orderBy = query.order_by ?? query.sort_by ?? 'created_at';
      const { rows, is_cut } = await readPage(context.db, context.projectId, page, filter, orderBy, include);
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
