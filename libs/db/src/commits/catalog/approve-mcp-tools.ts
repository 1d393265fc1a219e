import {
  NightshiftError,
  toStorableText,
  type McpDefinition,
  type SideEffects,
  type ToolSource,
} from '@nightshift/agent-core';
import { newId, type Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';
import { deleteListedItem } from './deleted-item.ts';

/** The approval of a tool as its server offers it. */
export interface McpApproval {
  /** Its name on the server. */
  readonly name: string;
  /** Hash of the definition that the user has seen. */
  readonly definition_sha256: string;
  /** The name that agents call it by. */
  readonly tool_name: string;
  /** Null keeps that of the tool; so do the next three. Default of a new tool: `once`. */
  readonly side_effects: SideEffects | null;
  readonly requires_approval: boolean | null;
  /** Default of a new tool: 50,000. Unit: characters. */
  readonly return_char_limit: number | null;
  /** Default of a new tool: 30,000. */
  readonly timeout_ms: number | null;
}

/**
 * Approves tools of an MCP server: each becomes a tool of agents, or changes that for batches accepted from now on. A tool
 * of agents keeps its name, because limits find the calls of open runs by it. No `name` may be there twice.
 * Throws: `conflict` when a definition is not the offered one, another tool has the name, or the tool has another name.
 * Locks: the server's tools.
 */
export async function approveMcpTools(
  trx: Tx,
  projectId: string,
  server: { readonly id: string; readonly name: string },
  approvals: readonly McpApproval[],
): Promise<void> {
  const rows = await trx
    .selectFrom('mcp_tool')
    .select(['name', 'offered', 'offered_sha256', 'tool_id'])
    .where('server_id', '=', server.id)
    .where('project_id', '=', projectId)
    .orderBy('name')
    .forUpdate()
    .execute();
  const byName = new Map(rows.map((row) => [row.name, row]));
  for (const approval of approvals) {
    const { name, definition_sha256 } = approval;
    const row = byName.get(name);
    if (row?.offered == null || row.offered_sha256 !== definition_sha256) throw isNotOffered(name);
    const tool_id = await storeTool(trx, projectId, server, approval, row.offered, row.tool_id);
    await trx
      .updateTable('mcp_tool')
      .set({ approved: storableJson(row.offered), approved_sha256: definition_sha256, tool_id })
      .where('server_id', '=', server.id)
      .where('name', '=', name)
      .execute();
  }
}

async function storeTool(
  trx: Tx,
  projectId: string,
  server: { readonly id: string; readonly name: string },
  approval: McpApproval,
  definition: McpDefinition,
  toolId: string | null,
): Promise<string> {
  const { name, definition_sha256, tool_name, side_effects, requires_approval } = approval;
  const { return_char_limit, timeout_ms } = approval;
  const source: ToolSource = { mcp: { server_id: server.id, tool_name: name, definition_sha256 } };
  const offered = {
    name: tool_name,
    description: toStorableText(
      definition.description === '' ? (definition.title ?? '') : definition.description,
    ),
    input_schema: storableJson(definition.input_schema),
    source: storableJson(source),
  };
  if (toolId !== null) {
    const { numUpdatedRows } = await trx
      .updateTable('tool')
      .set({
        ...offered,
        ...(side_effects === null ? {} : { side_effects }),
        ...(requires_approval === null ? {} : { requires_approval }),
        ...(return_char_limit === null ? {} : { return_char_limit }),
        ...(timeout_ms === null ? {} : { timeout_ms }),
        updated_at: NOW,
      })
      .where('id', '=', toolId)
      .where('name', '=', tool_name)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) throw keepsItsName(name);
    return toolId;
  }
  const created = await trx
    .insertInto('tool')
    .values({
      ...offered,
      ...{ id: newId(), project_id: projectId, kind: 'mcp', tool_type: 'external_mcp', source_type: 'json' },
      ...{ source_code: null, tags: [`mcp:${server.name}`] },
      side_effects: side_effects ?? 'once',
      requires_approval: requires_approval ?? false,
      return_char_limit: return_char_limit ?? 50_000,
      timeout_ms: timeout_ms ?? 30_000,
    })
    .onConflict((on) => on.columns(['project_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (created === undefined) throw nameIsTaken(tool_name);
  return created.id;
}

function keepsItsName(name: string): NightshiftError {
  const message = `Agents have '${name}' under another name already: leave tool_name out, or delete the tool and approve it anew.`;
  return new NightshiftError('conflict', message);
}

function nameIsTaken(name: string): NightshiftError {
  const message = `Another tool has the name '${name}': approve this one under another name, with tool_name.`;
  return new NightshiftError('conflict', message);
}

function isNotOffered(name: string): NightshiftError {
  const message = `The server does not offer '${name}' with this definition_sha256; refresh the server and look at the difference.`;
  return new NightshiftError('conflict', message);
}

/**
 * Deletes an MCP server with its tools, and detaches them from every agent; calls of open runs fail.
 * Throws: `not_found`. Locks: the server's row, then its tools. Index: primary key of `mcp_tool`.
 */
export async function deleteMcpServer(trx: Tx, projectId: string, serverId: string): Promise<void> {
  const server = await trx
    .selectFrom('mcp_server')
    .select('id')
    .where('id', '=', serverId)
    .where('project_id', '=', projectId)
    .forUpdate()
    .executeTakeFirst();
  if (server === undefined)
    throw new NightshiftError('not_found', `There is no MCP server mcp_server-${serverId}.`);
  // Tools without approval too: one may be on its way.
  const tools = await trx
    .selectFrom('mcp_tool')
    .select('tool_id')
    .where('server_id', '=', serverId)
    .orderBy('name')
    .forUpdate()
    .execute();
  for (const { tool_id } of tools)
    if (tool_id !== null) await deleteListedItem(trx, 'tool', projectId, tool_id);
  await trx.deleteFrom('mcp_server').where('id', '=', serverId).execute();
}
