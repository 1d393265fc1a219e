import { listMcpServers as readServers, readMcpServer, readMcpTools } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { mcpServerResponse, mcpServerWithTools, type McpServerWithTools } from '../../schemas/mcp-server.ts';
import { toMcpServerResponse, toMcpServerWithTools } from '../../wire/to-mcp-server.ts';

export const serverParams = z.object({ mcp_server_id: wireId('mcp_server') });

export function listMcpServers(app: App, context: Context): void {
  app.get(
    '/v1/mcp-servers',
    {
      schema: {
        operationId: 'listMcpServers',
        summary: 'List the MCP servers of the project',
        description: 'By name, without their tools.',
        tags: ['mcp-servers'],
        response: { 200: z.array(mcpServerResponse), ...problems },
      },
    },
    async () => (await readServers(context.db, context.projectId)).map(toMcpServerResponse),
  );
}

export function retrieveMcpServer(app: App, context: Context): void {
  app.get(
    '/v1/mcp-servers/:mcp_server_id',
    {
      schema: {
        operationId: 'retrieveMcpServer',
        summary: 'Read an MCP server and its tools',
        tags: ['mcp-servers'],
        params: serverParams,
        response: { 200: mcpServerWithTools, ...problems },
      },
    },
    (request) => showServer(context, request.params.mcp_server_id),
  );
}

/** Reads an MCP server with its tools, as an answer. Throws: `not_found`. */
export async function showServer(
  { db, projectId }: Pick<Context, 'db' | 'projectId'>,
  serverId: string,
): Promise<McpServerWithTools> {
  return toMcpServerWithTools(await readMcpServer(db, projectId, serverId), await readMcpTools(db, serverId));
}
