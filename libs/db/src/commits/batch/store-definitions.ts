import { strictPartsOf, type Definition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { agentContents, type RequestedDefinition } from '../../reads/catalog/agent-definitions.ts';

/**
 * Stores the definitions of `requests`, by the ids that `readRunAgents` has read. Returns false if an agent was changed or
 * deleted since the read, because another definition would be stored.
 * A definition's id is the head of the SHA-256 of its content, so equal agents share a row. Rows are inserted in id order,
 * so that two accepts cannot deadlock. `tools` is an array of tool definitions in attach order. A fresh row also gets the
 * parts that the provider enforces.
 * Index: primary keys; one statement, with fresh rows three.
 */
export async function storeDefinitions(
  trx: Tx,
  projectId: string,
  requests: ReadonlyMap<string, RequestedDefinition>,
): Promise<boolean> {
  if (requests.size === 0) return true;
  const ids = [...requests.keys()];
  const { rows } = await sql<{ found: number; fresh: readonly string[] | null }>`
    with ${agentContents(projectId, [...requests.values()])}, stored as (
      insert into definition (id, project_id, agent_type, system, model, model_settings, tool_rules, tools, result_format,
        context_window_limit, compaction, shows_counts, writable_labels, tool_choice, server_tools)
      select * from (
        select distinct on (definition_id) definition_id, ${projectId}::uuid, agent_type, system, model, model_settings,
          tool_rules, tools::json, result_format::json, context_window_limit, compaction, shows_counts,
          writable_labels, tool_choice::json, server_tools::json
        from content c
        where c.definition_id = any(${ids}::uuid[]) and not exists (select from definition d where d.id = c.definition_id)
        order by definition_id
      ) fresh
      on conflict (id) do nothing
      returning id
    )
    select count(distinct definition_id)::int as found, (select array_agg(id) from stored) as fresh
      from content where definition_id = any(${ids}::uuid[])
  `.execute(trx);
  const [{ found, fresh } = { found: 0, fresh: null }] = rows;
  if (fresh !== null) await storeStrictParts(trx, fresh);
  return found === ids.length;
}

/**
 * Stores the parts that the provider enforces. Definitions that differ in their prompt alone are read as one.
 * Index: primary key; two statements.
 */
async function storeStrictParts(trx: Tx, ids: readonly string[]): Promise<void> {
  const { rows } = await sql<
    Pick<Definition, 'tools' | 'model' | 'model_settings' | 'result_format'> & { ids: readonly string[] }
  >`
    select array_agg(id) as ids, model, model_settings::json, tools::json, result_format::json
      from (
        select id, model, model_settings::text, tools::text, result_format::text from definition
         where id = any(${ids}::uuid[])
      ) d
     group by model, d.model_settings, d.tools, d.result_format
  `.execute(trx);
  const strict = rows.flatMap(({ ids: alike, ...definition }) => {
    const parts = strictPartsOf(definition);
    return parts === null ? [] : alike.map((id) => ({ id, strict: parts }));
  });
  if (strict.length === 0) return;
  await sql`
    update definition d set strict = s.strict
      from json_to_recordset(${JSON.stringify(strict)}::json) as s (id uuid, strict json)
     where d.id = s.id and d.id = any(${ids}::uuid[])
  `.execute(trx);
}
