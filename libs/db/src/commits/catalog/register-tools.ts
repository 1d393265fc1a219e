import {
  FINISH_TOOL,
  isStoreCall,
  MEMORY_TOOLS,
  toStorableText,
  type JsonObject,
  type SideEffects,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import { newId, type Tx } from '../../connect.ts';
import { jsonRowChunks, storableJson } from '../json-rows.ts';

/** A tool of the operator's modules, as its tool host describes it. */
export interface ModuleTool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  readonly return_char_limit: number;
  readonly timeout_ms: number;
}

/**
 * Registers the built-in tools (memory and `finish`) in a project, or updates them to this release. Unchanged tools are not
 * written.
 * Locks: the changed rows in name order. Index: the unique (project, name).
 */
export async function registerMemoryTools(trx: Tx, projectId: string): Promise<void> {
  await upsertTools(trx, projectId, 'memory', MEMORY_TOOLS);
  await upsertTools(trx, projectId, 'finish', [FINISH_TOOL]);
}

/**
 * Registers the module tools in a project, or updates them to their manifests, except the result limit, which callers may
 * have changed.
 * Tools missing from the folder stay, because agents may have them; their calls end with an error that says so. A memory
 * tool's name is not replaced. Unchanged tools are not written.
 * Locks: the changed rows in name order.
 */
export function registerModuleTools(trx: Tx, projectId: string, tools: readonly ModuleTool[]): Promise<void> {
  return upsertTools(trx, projectId, 'module', tools);
}

async function upsertTools(
  trx: Tx,
  projectId: string,
  kind: 'memory' | 'module' | 'finish',
  tools: readonly ModuleTool[],
): Promise<void> {
  const rows = tools
    .map((tool) => ({
      id: newId(),
      name: tool.name,
      tool_type: kind === 'memory' ? lettaToolType(tool.name) : 'custom',
      description: toStorableText(tool.description),
      input_schema: storableJson(tool.input_schema),
      side_effects: tool.side_effects,
      return_char_limit: tool.return_char_limit,
      timeout_ms: tool.timeout_ms,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { json } of jsonRowChunks(rows)) {
    // return_char_limit, tags and similar fields belong to the user once the row exists; the rest follows the code.
    await sql`
      insert into tool (id, project_id, name, kind, tool_type, description, input_schema, side_effects,
        return_char_limit, timeout_ms, source_type)
      select id, ${projectId}::uuid, name, ${kind}::text, tool_type, description, input_schema::json,
        side_effects, return_char_limit, timeout_ms, 'json'
      from json_to_recordset(${json}::json) as r (id uuid, name text, tool_type text, description text, input_schema text,
        side_effects text, return_char_limit integer, timeout_ms integer)
      on conflict (project_id, name) do update
        set description = excluded.description, input_schema = excluded.input_schema,
          side_effects = excluded.side_effects, timeout_ms = excluded.timeout_ms, updated_at = app_now()
        where tool.kind = excluded.kind
          and (tool.description, tool.input_schema::text, tool.side_effects, tool.timeout_ms) is distinct from
            (excluded.description, excluded.input_schema::text, excluded.side_effects, excluded.timeout_ms)
    `.execute(trx);
  }
}

/** Returns Letta's type of a memory tool; Letta's users bring `rethink_memory` themselves. */
function lettaToolType(name: string): string {
  if (name === 'rethink_memory') return 'custom';
  if (name === 'send_message' || isStoreCall(name)) return 'letta_core';
  if (name.includes('rethink_user_') || name.includes('_rethinking_')) return 'letta_voice_sleeptime_core';
  return /^(core_memory_|memory$|memory_apply_patch$|memory_str_)/.test(name)
    ? 'letta_memory_core'
    : 'letta_sleeptime_core';
}
