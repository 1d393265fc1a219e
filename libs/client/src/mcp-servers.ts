import { dataOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';

/** The operations of MCP servers. */
export function mcpServersOf(on: Call) {
  const at = (id: string) => ({ ...on, path: { mcp_server_id: id } });
  return {
    /** Connects to a server, and stores it with its tools. */
    create: (body: types.McpServerCreate) => dataOf(sdk.createMcpServer({ ...on, body })),
    list: () => dataOf(sdk.listMcpServers(on)),
    retrieve: (id: string) => dataOf(sdk.retrieveMcpServer(at(id))),
    update: (id: string, body: types.McpServerUpdate) => dataOf(sdk.updateMcpServer({ ...at(id), body })),
    /** Reads the tools of a server again. */
    refresh: (id: string) => dataOf(sdk.refreshMcpServer(at(id))),
    /** Approves tools as the server offers them. */
    approve: (id: string, body: types.McpToolsApprove) => dataOf(sdk.approveMcpTools({ ...at(id), body })),
    delete: (id: string) => dataOf(sdk.deleteMcpServer(at(id))),
  };
}
