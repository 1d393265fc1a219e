import {
  NightshiftError,
  toStorableText,
  type JsonObject,
  type SideEffects,
  type ToolSource,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { storableJson } from '../json-rows.ts';

/** A tool that a user has uploaded or described. */
export interface NewTool {
  readonly name: string;
  readonly kind: 'sandbox' | 'python' | 'http';
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  readonly return_char_limit: number;
  readonly timeout_ms: number;
  /** Null keeps those of the tool that it replaces; so do the next two. */
  readonly requires_approval: boolean | null;
  readonly source_type: string;
  /** As it was uploaded; null for a tool without code. */
  readonly source_code: string | null;
  readonly source: ToolSource;
  /** The code that runs, under `source.code_sha256`. */
  readonly code: string | null;
  readonly tags: readonly string[] | null;
  readonly metadata: object | null;
}

/**
 * Stores a tool, or replaces the uploaded tool of its name; open runs keep what their definition has. Returns its id.
 * `held`: the tool as it was read before; it must not have changed since.
 * Throws: `conflict` when the name belongs to a built-in or module tool, or the tool has changed; `not_found` when it is gone.
 * Locks: its row. Index: unique (project, name).
 */
export async function storeTool(
  trx: Tx,
  projectId: string,
  tool: NewTool,
  held: { readonly id: string; readonly updated_at: Date } | null = null,
): Promise<string> {
  if (held !== null) await lockUnchanged(trx, tool.name, held);
  if (tool.code !== null && tool.source.code_sha256 !== undefined) {
    await trx
      .insertInto('tool_code')
      .values({ project_id: projectId, sha256: tool.source.code_sha256, code: tool.code })
      .onConflict((on) => on.doNothing())
      .execute();
  }
  const tags = tool.tags?.map(toStorableText) ?? null;
  const metadata = tool.metadata === null ? null : storableJson(tool.metadata);
  const { rows } = await sql<{ id: string }>`
    insert into tool (id, project_id, name, kind, tool_type, description, input_schema, side_effects, return_char_limit,
      timeout_ms, requires_approval, source_type, source_code, source, tags, metadata)
    values (${newId()}::uuid, ${projectId}::uuid, ${tool.name}, ${tool.kind}, 'custom',
      ${toStorableText(tool.description)}, ${storableJson(tool.input_schema)}::json, ${tool.side_effects},
      ${tool.return_char_limit}, ${tool.timeout_ms}, coalesce(${tool.requires_approval}::boolean, false), ${tool.source_type},
      ${tool.source_code === null ? null : toStorableText(tool.source_code)}, ${storableJson(tool.source)}::json,
      coalesce(${tags}::text[], '{}'), coalesce(${metadata}::json, '{}'))
    on conflict (project_id, name) do update
      set kind = excluded.kind, description = excluded.description, input_schema = excluded.input_schema,
        side_effects = excluded.side_effects, return_char_limit = excluded.return_char_limit,
        timeout_ms = excluded.timeout_ms, requires_approval = coalesce(${tool.requires_approval}::boolean, tool.requires_approval),
        source_type = excluded.source_type, source_code = excluded.source_code, source = excluded.source,
        tags = coalesce(${tags}::text[], tool.tags), metadata = coalesce(${metadata}::json, tool.metadata),
        updated_at = app_now()
      where tool.kind in ('sandbox', 'python', 'http')
    returning id
  `.execute(trx);
  const [stored] = rows;
  if (stored === undefined) {
    throw new NightshiftError(
      'conflict',
      `The name '${tool.name}' belongs to a built-in tool, a module of the operator or an MCP server; choose another.`,
    );
  }
  return stored.id;
}

/** Locks a tool that was read before. Throws: `not_found`, `conflict`. */
async function lockUnchanged(
  trx: Tx,
  name: string,
  held: { readonly id: string; readonly updated_at: Date },
): Promise<void> {
  const row = await trx
    .selectFrom('tool')
    .select('updated_at')
    .where('id', '=', held.id)
    .forUpdate()
    .executeTakeFirst();
  if (row === undefined) throw new NightshiftError('not_found', `There is no tool tool-${held.id}.`);
  if (row.updated_at.getTime() !== held.updated_at.getTime())
    throw new NightshiftError('conflict', `The tool '${name}' was changed meanwhile; read it and try again.`);
}
