import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import {
  agentContents,
  ownersOf,
  type ContentOwners,
  type DefinitionWish,
} from '../reads/agent-definitions.ts';

/** What a run takes from its agent when it is accepted. */
export interface FrozenAgent {
  readonly conversation_id: string;
  readonly definition_id: string;
  /** Whether its runs are held to tool rules. */
  readonly has_rules: boolean;
  /** Whether it has tools of its request. */
  readonly has_client_tools: boolean;
  /** Handle. */
  readonly model: string;
}

/**
 * Stores the definitions of agents as they are now, with what requests add to them, and says by the key of each wish what
 * its runs take; agents that do not exist or are deleted are missing from the answer. A definition's id is the head of the
 * SHA-256 of its content, so equal agents share one row and a known definition is not written again. New ones are inserted
 * in id order: two accepts cannot deadlock on them.
 *
 * `tools` is an array of tool definitions in the order in which they are attached. One statement; primary keys serve it.
 */
export async function freezeDefinitions(
  trx: Tx,
  projectId: string,
  wishes: readonly DefinitionWish[],
): Promise<ReadonlyMap<string, FrozenAgent>> {
  const { rows } = await sql<Omit<FrozenAgent, 'conversation_id'> & ContentOwners>`
    with ${agentContents(projectId, wishes)}, stored as (
      insert into definition (id, project_id, agent_type, system, model, model_settings, tool_rules, tools, result_format,
        context_window_limit, compaction, shows_counts)
      select * from (
        select distinct on (definition_id) definition_id, ${projectId}::uuid, agent_type, system, model, model_settings,
          tool_rules, tools::json, result_format::json, context_window_limit, compaction, shows_counts
        from content c where not exists (select from definition d where d.id = c.definition_id)
        order by definition_id
      ) fresh
      on conflict (id) do nothing
    )
    select places, conversation_ids, definition_id, model, json_array_length(tool_rules) > 0 as has_rules,
      client_tools is not null as has_client_tools
    from content
  `.execute(trx);
  const agents = new Map<string, FrozenAgent>();
  for (const row of rows) {
    const { definition_id, model, has_rules, has_client_tools } = row;
    for (const { wish, conversation_id } of ownersOf(wishes, row)) {
      agents.set(wish.key, { conversation_id, definition_id, has_rules, has_client_tools, model });
    }
  }
  return agents;
}
