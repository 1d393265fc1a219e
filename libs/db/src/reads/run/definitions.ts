import type { Definition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Definitions by id. They never change, so callers may keep them. */
export async function readDefinitions(db: Database, ids: readonly string[]): Promise<readonly Definition[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<Definition>`
    select id, agent_type, system, model, model_settings, tool_rules, tools, result_format, context_window_limit,
           compaction
      from definition where id = any(${ids}::uuid[])
  `.execute(db);
  return rows;
}
