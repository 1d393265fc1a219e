import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** An agent as a request wants it. */
export interface DefinitionWish {
  readonly agent_id: string;
  /** What the request adds to the agent's definition; equal texts for equal wishes. Null, both, for nothing. */
  readonly client_tools_json: string | null;
  readonly result_format_json: string | null;
}

/** What a run takes from its agent when it is accepted. */
export interface FrozenAgent extends DefinitionWish {
  readonly conversation_id: string;
  readonly definition_id: string;
  /** Whether its runs are held to tool rules. */
  readonly has_rules: boolean;
}

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
  const distinct = new Map(wishes.map((wish) => [wishKey(wish), wish]));
  const payload = [...distinct.values()].map(({ agent_id, client_tools_json, result_format_json }) => ({
    a: agent_id,
    t: client_tools_json ?? undefined,
    f: result_format_json ?? undefined,
  }));
  const { rows } = await sql<FrozenAgent>`
    with wish as materialized (
      select a as agent_id, t as client_tools, f as result_format
      from json_to_recordset(${JSON.stringify(payload)}::json) as w (a uuid, t text, f text)
    ), attached as (
      select a.id as agent_id, coalesce(array_agg(k.tool_id order by k.position, k.tool_id) filter (where k.tool_id is not null),
        '{}') as tool_ids
      from agent a left join agent_tool k on k.agent_id = a.id
      where a.id in (select agent_id from wish) and a.project_id = ${projectId}::uuid and a.deleted_at is null
      group by a.id
    ), toolbox as materialized (
      -- Agents of a fleet mostly have the same tools: print each list once.
      select s.tool_ids, coalesce((
        select json_agg(json_build_object('name', t.name, 'kind', t.kind, 'description', t.description,
          'input_schema', t.input_schema, 'side_effects', t.side_effects, 'return_char_limit', t.return_char_limit,
          'timeout_ms', t.timeout_ms, 'requires_approval', t.requires_approval) order by u.position)
        from unnest(s.tool_ids) with ordinality as u (id, position) join tool t on t.id = u.id
      ), '[]')::text as tools
      from (select distinct tool_ids from attached) s
    ), wished as (
      select w.agent_id, w.client_tools, w.result_format,
        -- Two arrays as text, made one.
        case when w.client_tools is null then b.tools when b.tools = '[]' then w.client_tools
             else left(b.tools, -1) || ', ' || substr(w.client_tools, 2) end as tools
      from wish w join attached s on s.agent_id = w.agent_id join toolbox b on b.tool_ids = s.tool_ids
    ), content as (
      select a.id as agent_id, b.client_tools, b.result_format, a.conversation_id, a.agent_type, a.system, a.model, a.model_settings, a.tool_rules,
        b.tools, a.context_window_limit, a.compaction,
        encode(substr(sha256(convert_to(json_build_array(a.project_id, a.agent_type, a.system, a.model,
          a.model_settings::text, a.tool_rules::text, b.tools, b.result_format,
          a.context_window_limit, a.compaction::text)::text, 'UTF8')), 1, 16), 'hex')::uuid as definition_id
      from wished b join agent a on a.id = b.agent_id
    ), stored as (
      insert into definition (id, project_id, agent_type, system, model, model_settings, tool_rules, tools, result_format,
        context_window_limit, compaction)
      select * from (
        select distinct on (definition_id) definition_id, ${projectId}::uuid, agent_type, system, model, model_settings,
          tool_rules, tools::json, result_format::json, context_window_limit, compaction
        from content c where not exists (select from definition d where d.id = c.definition_id)
        order by definition_id
      ) fresh
      on conflict (id) do nothing
    )
    select agent_id, client_tools as client_tools_json, result_format as result_format_json, conversation_id, definition_id, json_array_length(tool_rules) > 0 as has_rules from content
  `.execute(trx);
  return new Map(rows.map((row) => [wishKey(row), row]));
}

/** Equal for equal wishes. */
export function wishKey({ agent_id, client_tools_json, result_format_json }: DefinitionWish): string {
  return `${agent_id} ${client_tools_json ?? ''} ${result_format_json ?? ''}`;
}
