import { NightshiftError, type McpDefinition, type SideEffects } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';

/** An MCP server as stored. */
export interface McpServerRow {
  readonly id: string;
  readonly name: string;
  /** Null: a program of the operator. */
  readonly url: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The header of the token, if any. */
  readonly auth_header: string | null;
  readonly revision: string;
  readonly refreshed_at: Date;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A tool of an MCP server. Null: not offered, not approved, or without a tool of agents. */
export interface McpToolRow {
  readonly name: string;
  readonly offered: McpDefinition | null;
  readonly offered_sha256: string | null;
  readonly approved: McpDefinition | null;
  readonly approved_sha256: string | null;
  readonly tool_id: string | null;
  /** The name that agents call it by, and its effects. */
  readonly tool_name: string | null;
  readonly side_effects: SideEffects | null;
}

const columns = [
  ...(['id', 'name', 'url', 'headers', 'auth_header', 'revision'] as const),
  ...(['refreshed_at', 'created_at', 'updated_at'] as const),
] as const;

/** Reads the MCP servers of a project by name. Index: unique (project, name). */
export async function listMcpServers(db: Database, projectId: string): Promise<readonly McpServerRow[]> {
  return db
    .selectFrom('mcp_server')
    .select(columns)
    .where('project_id', '=', projectId)
    .orderBy('name')
    .execute();
}

/** Reads an MCP server; undefined if there is none. Index: primary key. */
export async function findMcpServer(
  db: Database,
  projectId: string,
  serverId: string,
): Promise<McpServerRow | undefined> {
  return db
    .selectFrom('mcp_server')
    .select(columns)
    .where('id', '=', serverId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
}

/** Reads an MCP server. Throws: `not_found`. Index: primary key. */
export async function readMcpServer(
  db: Database,
  projectId: string,
  serverId: string,
): Promise<McpServerRow> {
  const server = await findMcpServer(db, projectId, serverId);
  if (server === undefined)
    throw new NightshiftError('not_found', `There is no MCP server mcp_server-${serverId}.`);
  return server;
}

/** Reads the tools of an MCP server by name. Index: primary key of `mcp_tool`. */
export async function readMcpTools(db: Database, serverId: string): Promise<readonly McpToolRow[]> {
  return db
    .selectFrom('mcp_tool as m')
    .leftJoin('tool as t', 't.id', 'm.tool_id')
    .select(['m.name', 'm.offered', 'm.offered_sha256', 'm.approved', 'm.approved_sha256', 'm.tool_id'])
    .select(['t.name as tool_name', 't.side_effects'])
    .where('m.server_id', '=', serverId)
    .orderBy('m.name')
    .execute();
}
