import { checkInputSchema, diffDefinitions, toWireId } from '@nightshift/agent-core';
import type { McpServerRow, McpToolRow } from '@nightshift/db';
import type { McpServerResponse, McpServerWithTools, McpToolResponse } from '../schemas/mcp-server.ts';

/** Converts a stored MCP server to an answer. */
export function toMcpServerResponse(server: McpServerRow): McpServerResponse {
  const { auth_header, headers } = server;
  return {
    id: toWireId('mcp_server', server.id),
    server_name: server.name,
    mcp_server_type: server.url === null ? 'stdio' : 'streamable_http',
    server_url: server.url,
    auth_header,
    auth_token: auth_header === null ? null : (headers[auth_header] ?? null),
    custom_headers: Object.fromEntries(Object.entries(headers).filter(([name]) => name !== auth_header)),
    revision: server.revision,
    refreshed_at: server.refreshed_at.toISOString(),
    created_at: server.created_at.toISOString(),
    updated_at: server.updated_at.toISOString(),
  };
}

/** Converts a stored MCP server with its tools to an answer. */
export function toMcpServerWithTools(server: McpServerRow, tools: readonly McpToolRow[]): McpServerWithTools {
  return { ...toMcpServerResponse(server), tools: tools.map(toMcpTool) };
}

function toMcpTool(tool: McpToolRow): McpToolResponse {
  const { offered, approved } = tool;
  const state = stateOf(tool);
  return {
    name: tool.name,
    state,
    tool_id: tool.tool_id === null ? null : toWireId('tool', tool.tool_id),
    tool_name: tool.tool_name,
    side_effects: tool.side_effects,
    definition: offered === null ? null : { ...offered },
    definition_sha256: tool.offered_sha256,
    approved_sha256: tool.tool_id === null ? null : tool.approved_sha256,
    differences:
      state !== 'changed' || approved === null || offered === null
        ? []
        : diffDefinitions(approved, offered).map((each) => ({ ...each })),
    unusable: offered === null ? null : checkInputSchema(offered.input_schema),
  };
}

function stateOf({ tool_id, offered_sha256, approved_sha256 }: McpToolRow): McpToolResponse['state'] {
  if (offered_sha256 === null) return 'missing';
  if (tool_id === null) return 'pending';
  return offered_sha256 === approved_sha256 ? 'approved' : 'changed';
}
