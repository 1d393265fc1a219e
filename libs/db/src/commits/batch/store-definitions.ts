import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { agentContents, type RequestedDefinition } from '../../reads/catalog/agent-definitions.ts';

/**
 * Stores the definitions of `requests`, by the ids that `readRunAgents` has read. Returns false if an agent was changed or
 * deleted since the read, because another definition would be stored.
 * A definition's id is the head of the SHA-256 of its content, so equal agents share a row. Rows are inserted in id order,
 * so that two accepts cannot deadlock. `tools` is an array of tool definitions in attach order.
 * Index: primary keys; one statement.
 */
export async function storeDefinitions(
  trx: Tx,
  projectId: string,
  requests: ReadonlyMap<string, RequestedDefinition>,
): Promise<boolean> {
  if (requests.size === 0) return true;
  const ids = [...requests.keys()];
  const { rows } = await sql<{ found: number }>`
    with ${agentContents(projectId, [...requests.values()])}, stored as (
      insert into definition (id, project_id, agent_type, system, model, model_settings, tool_rules, tools, result_format,
        context_window_limit, compaction, shows_counts, writable_labels)
      select * from (
        select distinct on (definition_id) definition_id, ${projectId}::uuid, agent_type, system, model, model_settings,
          tool_rules, tools::json, result_format::json, context_window_limit, compaction, shows_counts,
          writable_labels
        from content c
        where c.definition_id = any(${ids}::uuid[]) and not exists (select from definition d where d.id = c.definition_id)
        order by definition_id
      ) fresh
      on conflict (id) do nothing
    )
    select count(distinct definition_id)::int as found from content where definition_id = any(${ids}::uuid[])
  `.execute(trx);
  return rows[0]?.found === ids.length;
}
