import { NightshiftError, type McpDefinition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { jsonRowChunks, storableJson } from '../json-rows.ts';

/** The configuration of an MCP server. */
export interface McpServerConfig {
  readonly name: string;
  /** Null: a program of the operator. */
  readonly url: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly auth_header: string | null;
}

/** The tools that an MCP server offers. */
export interface StoredOffer {
  readonly revision: string;
  readonly tools: readonly { readonly definition: McpDefinition; readonly sha256: string }[];
}

/**
 * Stores a new MCP server and its tools, none of them approved. Returns its id.
 * Throws: `conflict` when another server has the name.
 */
export async function createMcpServer(
  trx: Tx,
  projectId: string,
  config: McpServerConfig,
  offer: StoredOffer,
): Promise<string> {
  const created = await trx
    .insertInto('mcp_server')
    .values({
      ...{ id: newId(), project_id: projectId, name: config.name, url: config.url },
      ...{ headers: storableJson(config.headers), auth_header: config.auth_header, revision: offer.revision },
    })
    .onConflict((on) => on.columns(['project_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (created === undefined) throw nameIsTaken(config.name);
  await storeMcpOffer(trx, projectId, created.id, offer);
  return created.id;
}

/**
 * Changes an MCP server; approved tools stay approved as they are.
 * Throws: `not_found`, `conflict` when another server has the name. Locks: its row.
 */
export async function changeMcpServer(
  trx: Tx,
  projectId: string,
  serverId: string,
  { name, url, headers, auth_header }: McpServerConfig,
): Promise<void> {
  const other = await trx
    .selectFrom('mcp_server')
    .select('id')
    .where('project_id', '=', projectId)
    .where('name', '=', name)
    .where('id', '!=', serverId)
    .executeTakeFirst();
  if (other !== undefined) throw nameIsTaken(name);
  const { numUpdatedRows } = await trx
    .updateTable('mcp_server')
    .set({ name, url, headers: storableJson(headers), auth_header, updated_at: NOW })
    .where('id', '=', serverId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  if (numUpdatedRows === 0n)
    throw new NightshiftError('not_found', `There is no MCP server mcp_server-${serverId}.`);
}

/**
 * Stores the tools that an MCP server offers now. Approvals stay; a tool that is neither offered nor approved is deleted.
 * Returns false if the server is deleted. Locks: the server's row.
 */
export async function storeMcpOffer(
  trx: Tx,
  projectId: string,
  serverId: string,
  { revision, tools }: StoredOffer,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('mcp_server')
    .set({ revision, refreshed_at: NOW })
    .where('id', '=', serverId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return false;
  await trx
    .updateTable('mcp_tool')
    .set({ offered: null, offered_sha256: null })
    .where('server_id', '=', serverId)
    .where('approved', 'is not', null)
    .execute();
  await trx.deleteFrom('mcp_tool').where('server_id', '=', serverId).where('approved', 'is', null).execute();
  const rows = tools.map(({ definition, sha256 }) => ({
    ...{ name: definition.name, offered: storableJson(definition), sha256 },
  }));
  for (const { json } of jsonRowChunks(rows)) {
    await sql`
      insert into mcp_tool (server_id, project_id, name, offered, offered_sha256)
      select ${serverId}::uuid, ${projectId}::uuid, name, offered::json, sha256
        from json_to_recordset(${json}::json) as r (name text, offered text, sha256 text)
      on conflict (server_id, name) do update
        set offered = excluded.offered, offered_sha256 = excluded.offered_sha256
    `.execute(trx);
  }
  return true;
}

/**
 * Registers a program of the operator as an MCP server, with the tools that it offers. Returns its id.
 * Throws: `conflict` when a server with an address has the name.
 */
export async function registerMcpProgram(
  trx: Tx,
  projectId: string,
  name: string,
  offer: StoredOffer,
): Promise<string> {
  const held = await trx
    .selectFrom('mcp_server')
    .select(['id', 'url'])
    .where('project_id', '=', projectId)
    .where('name', '=', name)
    .executeTakeFirst();
  if (held === undefined)
    return createMcpServer(trx, projectId, { name, url: null, headers: {}, auth_header: null }, offer);
  if (held.url !== null) throw nameIsTaken(name);
  await storeMcpOffer(trx, projectId, held.id, offer);
  return held.id;
}

function nameIsTaken(name: string): NightshiftError {
  return new NightshiftError('conflict', `Another MCP server has the name '${name}'; choose another.`);
}
