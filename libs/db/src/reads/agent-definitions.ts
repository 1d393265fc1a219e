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
    ), wished as materialized (
      -- The comparison of projects is wrapped: for a plain one, stale statistics promise a single agent, and what is
      -- joined to the agents is read again for each.
      select w.client_tools, w.result_format as asked_format,
        nullif(coalesce(w.result_format, a.result_format::text), 'none') as result_format,
        a.id as agent_id, a.project_id, a.conversation_id, a.agent_type, a.system, a.model, a.model_settings, a.tool_rules,
        a.context_window_limit, a.compaction,
        coalesce((
          select array_agg(k.tool_id order by k.position, k.tool_id) from agent_tool k where k.agent_id = a.id), '{}') as tool_ids
      from wish w join agent a on a.id = w.agent_id
      where coalesce(a.project_id = ${projectId}::uuid, false) and a.deleted_at is null
    ), toolbox as materialized (
      -- Agents of a fleet mostly have the same tools: print each list once.
      select s.tool_ids, coalesce((
        select json_agg(json_build_object('name', t.name, 'kind', t.kind, 'description', t.description,
          'input_schema', t.input_schema, 'side_effects', t.side_effects, 'return_char_limit', t.return_char_limit,
          'timeout_ms', t.timeout_ms, 'requires_approval', t.requires_approval) order by u.position)
        from unnest(s.tool_ids) with ordinality as u (id, position) join tool t on t.id = u.id
      ), '[]')::text as tools
      from (select distinct tool_ids from wished) s
    ), equipped as materialized (
      select w.*,
        -- Two arrays as text, made one.
        case when w.client_tools is null then b.tools when b.tools = '[]' then w.client_tools
             else left(b.tools, -1) || ', ' || substr(w.client_tools, 2) end as tools
      from wished w join toolbox b on b.tool_ids = w.tool_ids
    ), content as (
      select agent_id, client_tools, asked_format, result_format, conversation_id, agent_type, system, model, model_settings, tool_rules,
        tools, context_window_limit, compaction,
        encode(substr(sha256(convert_to(json_build_array(project_id, agent_type, system, model,
          model_settings::text, tool_rules::text, tools, result_format,
          context_window_limit, compaction::text)::text, 'UTF8')), 1, 16), 'hex')::uuid as definition_id
      from equipped
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
