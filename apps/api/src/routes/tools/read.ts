import { FINISH_TOOL, listOf, MEMORY_TOOLS, NightshiftError } from '@nightshift/agent-core';
import {
  findTools,
  inTransaction,
  listTools as readPage,
  readTool,
  registerMemoryTools,
} from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { eitherOf, QUERY_LIST_MAX } from '../../query.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { TOOL_TYPES, toolResponse } from '../../schemas/tool.ts';
import { toToolResponse } from '../../wire/to-tool.ts';

export function retrieveTool(app: App, context: Context): void {
  app.get(
    '/v1/tools/:tool_id',
    {
      schema: {
        operationId: 'retrieveTool',
        summary: 'Read a tool',
        tags: ['tools'],
        params: z.object({ tool_id: wireId('tool') }),
        response: { 200: toolResponse, ...problems },
      },
    },
    async (request) => toToolResponse(await readTool(context.db, context.projectId, request.params.tool_id)),
  );
}

const toolsQuery = z.strictObject({
  ...pageQuery('tool', { limit: 50, order: 'desc' }),
  name: z.string().optional(),
  names: listOf(z.string(), QUERY_LIST_MAX).optional(),
  tool_ids: listOf(wireId('tool'), QUERY_LIST_MAX).optional(),
  search: z.string().optional().describe('Part of the name.'),
  tool_types: listOf(z.string(), QUERY_LIST_MAX).optional(),
  exclude_tool_types: listOf(z.string(), QUERY_LIST_MAX).optional(),
  return_only_letta_tools: z.boolean().optional(),
});

export function listTools(app: App, context: Context): void {
  app.get(
    '/v1/tools',
    {
      schema: {
        operationId: 'listTools',
        summary: 'List tools',
        tags: ['tools'],
        querystring: toolsQuery,
        response: { 200: z.array(toolResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const page = toPage(query);
      assertToolTypes('tool_types', query.tool_types);
      assertToolTypes('exclude_tool_types', query.exclude_tool_types);
      const { rows, is_cut } = await readPage(context.db, context.projectId, page, {
        names: eitherOf(query.name, query.names),
        ids: query.tool_ids ?? null,
        name_part: query.search ?? null,
        tool_types: toToolTypes(query),
        excluded_tool_types: query.exclude_tool_types ?? null,
      });
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

/** Returns the tool types to show; null for all. */
function toToolTypes(query: z.output<typeof toolsQuery>): readonly string[] | null {
  const asked = query.tool_types ?? null;
  if (query.return_only_letta_tools !== true) return asked;
  return (asked ?? TOOL_TYPES).filter((type) => type.startsWith('letta_'));
}

/**
 * Checks the tool types.
 * Throws: `invalid_argument` (400), as Letta does.
 */
function assertToolTypes(parameter: string, types: readonly string[] | undefined): void {
  const unknown = types?.find((type) => !TOOL_TYPES.some((known) => known === type));
  if (unknown === undefined) return;
  const message = `there is no tool type '${unknown}'; use ${TOOL_TYPES.join(', ')}`;
  throw new NightshiftError('invalid_argument', `?${parameter}: ${message}.`, {
    fields: [{ path: `?${parameter}`, message }],
  });
}

export function addBaseTools(app: App, context: Context): void {
  app.post(
    '/v1/tools/add-base-tools',
    {
      schema: {
        operationId: 'addBaseTools',
        summary: 'Restore deleted built-in tools',
        tags: ['tools'],
        response: { 200: z.array(toolResponse), ...problems },
      },
    },
    async () => {
      await inTransaction(context.db, (trx) => registerMemoryTools(trx, context.projectId));
      const names = [...MEMORY_TOOLS, FINISH_TOOL].map((tool) => tool.name);
      const tools = await findTools(context.db, context.projectId, { names, ids: [] });
      return tools.map(toToolResponse);
    },
  );
}
