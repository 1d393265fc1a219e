import type { Definition } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../connect.ts';

/** An agent as a request wants it. */
export interface DefinitionWish {
  readonly agent_id: string;
  /** What the request adds to the agent's definition; equal texts for equal wishes. Null for nothing. */
  readonly client_tools_json: string | null;
  /** What the request says of its result in place of the agent; `none`: it may be anything. */
  readonly result_format_json: string | null;
}

/** Equal for equal wishes. */
export function wishKey({ agent_id, client_tools_json, result_format_json }: DefinitionWish): string {
  return `${agent_id} ${client_tools_json ?? ''} ${result_format_json ?? ''}`;
}

/** What runs of agents are frozen from, as common table expressions that end with `content`, a row for each wish. */
export function agentContents(projectId: string, wishes: readonly DefinitionWish[]): RawBuilder<unknown> {
  const distinct = new Map(wishes.map((wish) => [wishKey(wish), wish]));
  const payload = [...distinct.values()].map(({ agent_id, client_tools_json, result_format_json }) => ({
    a: agent_id,
    t: client_tools_json ?? undefined,
    f: result_format_json ?? undefined,
  }));
  return sql`
    wish as materialized (
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
      select a.id as agent_id, b.client_tools, b.result_format as asked_format, f.result_format, a.conversation_id, a.agent_type, a.system, a.model, a.model_settings, a.tool_rules,
        b.tools, a.context_window_limit, a.compaction,
        encode(substr(sha256(convert_to(json_build_array(a.project_id, a.agent_type, a.system, a.model,
          a.model_settings::text, a.tool_rules::text, b.tools, f.result_format,
          a.context_window_limit, a.compaction::text)::text, 'UTF8')), 1, 16), 'hex')::uuid as definition_id
      from wished b join agent a on a.id = b.agent_id
      cross join lateral (
        select nullif(coalesce(b.result_format, a.result_format::text), 'none') as result_format) f
    )`;
}

/** An agent as a batch that is accepted now would freeze it. */
export interface AgentDefinition extends DefinitionWish {
  readonly conversation_id: string;
  readonly definition: Definition;
}

/**
 * The definitions that an accept would freeze, by {@link wishKey}, without storing them; agents that do not exist or are
 * deleted are missing.
 */
export async function readAgentDefinitions(
  db: Database,
  projectId: string,
  wishes: readonly DefinitionWish[],
): Promise<ReadonlyMap<string, AgentDefinition>> {
  const { rows } = await sql<
    Omit<Definition, 'id'> & Omit<AgentDefinition, 'definition'> & { definition_id: string }
  >`
    with ${agentContents(projectId, wishes)}
    select c.agent_id, c.client_tools as client_tools_json, c.asked_format as result_format_json, c.conversation_id,
           c.definition_id, c.agent_type, c.system, c.model, c.model_settings, c.tool_rules, c.tools::json as tools,
           c.result_format::json as result_format, c.context_window_limit, c.compaction
      from content c
  `.execute(db);
  return new Map(
    rows.map(
      ({ agent_id, client_tools_json, result_format_json, conversation_id, definition_id, ...rest }) => {
        const wish = { agent_id, client_tools_json, result_format_json };
        const definition = { id: definition_id, ...rest };
        return [wishKey(wish), { ...wish, conversation_id, definition }];
      },
    ),
  );
}
