import { STORE_TOOLS } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import { agentContents, wishKey, type DefinitionWish } from '../reads/agent-definitions.ts';

/** What a run takes from its agent when it is accepted. */
export interface FrozenAgent extends DefinitionWish {
  readonly conversation_id: string;
  readonly definition_id: string;
  /** Whether its runs are held to tool rules. */
  readonly has_rules: boolean;
  /** Handle. */
  readonly model: string;
}

const STORE_NAMES = STORE_TOOLS.map((tool) => tool.name);

/**
 * Stores the definitions of agents as they are now, with what requests add to them, and says which wish has which, by
 * {@link wishKey}; agents that do not exist or are deleted are missing from the answer. A definition's id is the head of the SHA-256 of its content, so equal agents share one row
 * and a known definition is not written again. New ones are inserted in id order: two accepts cannot deadlock on them.
 *
 * `tools` is an array of tool definitions in the order in which they are attached. One statement; primary keys serve it.
 */
export async function freezeDefinitions(
  trx: Tx,
  projectId: string,
  wishes: readonly DefinitionWish[],
): Promise<ReadonlyMap<string, FrozenAgent>> {
  const { rows } = await sql<FrozenAgent>`
    with ${agentContents(projectId, wishes)}, stored as (
      insert into definition (id, project_id, agent_type, system, model, model_settings, tool_rules, tools, result_format,
        context_window_limit, compaction, shows_counts)
      select * from (
        select distinct on (definition_id) definition_id, ${projectId}::uuid, agent_type, system, model, model_settings,
          tool_rules, tools::json, result_format::json, context_window_limit, compaction,
          exists (select from json_array_elements(c.tools::json) t
                   where t->>'kind' = 'memory' and t->>'name' = any(${STORE_NAMES}))
        from content c where not exists (select from definition d where d.id = c.definition_id)
        order by definition_id
      ) fresh
      on conflict (id) do nothing
    )
    select agent_id, client_tools as client_tools_json, asked_format as result_format_json, conversation_id, definition_id, model, json_array_length(tool_rules) > 0 as has_rules from content
  `.execute(trx);
  return new Map(rows.map((row) => [wishKey(row), row]));
}
