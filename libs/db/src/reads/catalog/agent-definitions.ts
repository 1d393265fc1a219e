import {
  REWRITE_TOOLS,
  STORE_TOOLS,
  STRICT_RULES,
  strictPartsOf,
  type Definition,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';

/** The additions of requests to their agents' definitions. */
export interface Added {
  /** Index among the distinct additions of the definitions requested together. */
  readonly place: number;
  /** Null for none. */
  readonly client_tools_json: string | null;
  /** Overrides the agent's result format; `none`: any. */
  readonly result_format_json: string | null;
  /** Overrides the agent's model handle; null for none. The next three say which forms of thinking it takes. */
  readonly model: string | null;
  readonly takes_budget: boolean;
  readonly takes_adaptive: boolean;
  readonly thinks_always: boolean;
  /** Overrides the agent's system prompt; null for none. */
  readonly system: string | null;
  /** {@link ToolChoice}, with sorted `remove` and `only`; null for the agent's tools and server tools. */
  readonly tool_choice_json: string | null;
  /** Replaces the agent's tools by the memory tools of a rewrite, without tool rules. */
  readonly memory_tools_only: boolean;
  /** Sorted; null for all. */
  readonly writable_labels: readonly string[] | null;
}

/** An agent with the additions of a request. */
export interface RequestedDefinition {
  /** Equal for equal requests, among those requested together. */
  readonly key: string;
  readonly agent_id: string;
  /** The same object for equal additions. */
  readonly added: Added;
}

/** Ends the content that a definition's id is made of. */
const STRICT_SUFFIX = ` strict ${STRICT_RULES}`;
const STORE_NAMES = STORE_TOOLS.map((tool) => tool.name);
const REWRITE_NAMES = REWRITE_TOOLS.map((tool) => tool.name);
/** Agent type of runs with memory tools only: its memory section has line numbers, and no type hides it. */
const REWRITE_AGENT_TYPE = 'sleeptime_agent';
/** Smallest thinking budget that the provider accepts, and the answer tokens that it leaves at least. */
const THINKING_BUDGET_MIN = 1_024;

const THINKING = sql`(a.model_settings -> 'extra' -> 'thinking')`;
const THINKING_TYPE = sql`coalesce(${THINKING} ->> 'type', 'enabled')`;

/** The settings of the agent `a` in a form that the model of the additions `d` accepts. */
const MODEL_SETTINGS = sql`case
    when d.model is null or json_typeof(${THINKING}) is distinct from 'object' then a.model_settings
    when ${THINKING_TYPE} = 'adaptive' and not d.takes_adaptive then
      jsonb_set(
        jsonb_set(a.model_settings::jsonb, '{extra,thinking}',
          jsonb_build_object('type', 'enabled', 'budget_tokens', ${THINKING_BUDGET_MIN}::int)),
        '{max_output_tokens}',
        to_jsonb(greatest((a.model_settings ->> 'max_output_tokens')::int, ${2 * THINKING_BUDGET_MIN}::int)))::json
    when (${THINKING_TYPE} = 'enabled' and not d.takes_budget) or (${THINKING_TYPE} = 'disabled' and d.thinks_always) then
      jsonb_set(a.model_settings::jsonb, '{extra,thinking}',
        (${THINKING}::jsonb - 'budget_tokens') || '{"type":"adaptive"}')::json
    else a.model_settings end`;

const TOOL_IDS = sql`array(select k.tool_id from agent_tool k where k.agent_id = a.id order by k.position, k.tool_id)`;

/** The server tools of the agent `a` with the additions `d`; `[]` for none chosen. */
const SERVER_TOOLS = sql`case when d.memory_tools_only then '[]'::json else coalesce(d.server_tools, a.server_tools) end`;

/** Columns of a definition from the agent `a`, except tools and result format. */
const AGENTS_OWN = {
  agent_type: sql`a.agent_type`,
  system: sql`a.system`,
  model: sql`a.model`,
  model_settings: sql`a.model_settings`,
  tool_rules: sql`a.tool_rules`,
  server_tools: sql`a.server_tools`,
};

/** The same columns with the overrides of the additions `d`. */
const OVERRIDDEN: typeof AGENTS_OWN = {
  agent_type: sql`case when d.memory_tools_only then ${REWRITE_AGENT_TYPE} else a.agent_type end`,
  system: sql`coalesce(d.system, a.system)`,
  model: sql`coalesce(d.model, a.model)`,
  model_settings: MODEL_SETTINGS,
  tool_rules: sql`case when d.memory_tools_only then '[]'::json else a.tool_rules end`,
  server_tools: SERVER_TOOLS,
};

function overrides({ model, system, tool_choice_json, memory_tools_only }: Added): boolean {
  return model !== null || system !== null || tool_choice_json !== null || memory_tools_only;
}

/** The ids of the tools of the agent `a` after the choice of the additions `d`, in order. */
function chosenToolIds(projectId: string): RawBuilder<unknown> {
  return sql`array(
    select u.id from (
      select t.id, t.name, 1 as list, k.position as place from agent_tool k join tool t on t.id = k.tool_id where k.agent_id = a.id
      union all
      select t.id, t.name, 2, n.place
        from unnest(d.tools_added) with ordinality as n (name, place)
        join tool t on t.project_id = ${projectId}::uuid and t.name = n.name
       where not exists (select from agent_tool k where k.agent_id = a.id and k.tool_id = t.id)
    ) u
    where (d.tools_only is null or u.name = any(d.tools_only)) and u.name <> all(d.tools_removed)
    order by u.list, u.place, u.id)`;
}

/** Selects the agents of requests with their tools and a digest of the rest. Most batches override nothing and read no more. */
function digestedAgents(
  projectId: string,
  isOverriding: boolean,
): {
  readonly tool_ids: RawBuilder<unknown>;
  readonly digest: RawBuilder<unknown>;
  readonly joined: RawBuilder<unknown>;
} {
  if (!isOverriding) {
    return {
      tool_ids: TOOL_IDS,
      digest: sql`row(a.agent_type, a.system, a.model, a.model_settings, a.tool_rules, a.result_format,
        a.context_window_limit, a.compaction, a.server_tools)`,
      joined: sql``,
    };
  }
  const { agent_type, system, model, tool_rules } = OVERRIDDEN;
  return {
    tool_ids: sql`case when d.memory_tools_only then array(select t.id from tool t
        where t.project_id = ${projectId}::uuid and t.kind = 'memory' and t.name = any(${REWRITE_NAMES}) order by t.name)
      when d.tool_choice is not null then ${chosenToolIds(projectId)}
      else ${TOOL_IDS} end`,
    digest: sql`row(${agent_type}, ${system}, ${model}, a.model_settings, ${tool_rules},
      case when d.result_format is null then a.result_format end, a.context_window_limit, a.compaction,
      ${SERVER_TOOLS})`,
    joined: sql`join added d on d.place = w.added`,
  };
}

/**
 * The sources of runs' frozen definitions, as CTEs that end with `content`: a row per distinct content, with the requests
 * that share it (see {@link ownersOf}).
 */
export function agentContents(
  projectId: string,
  requests: readonly RequestedDefinition[],
): RawBuilder<unknown> {
  const added = [...new Set(requests.map((request) => request.added))];
  const isOverriding = added.some(overrides);
  const { tool_ids, digest, joined } = digestedAgents(projectId, isOverriding);
  const own = isOverriding ? OVERRIDDEN : AGENTS_OWN;
  const agentIds = `{${requests.map((request) => request.agent_id).join(',')}}`;
  const addedPlaces = `{${requests.map((request) => request.added.place).join(',')}}`;
  return sql`
    added ${AS_FIRST} (
      select place, client_tools_json as client_tools, result_format_json as result_format, model, takes_budget,
        takes_adaptive, thinks_always, system, tool_choice_json as tool_choice, c.add as tools_added,
        c.remove as tools_removed, c."only" as tools_only, c.server_tools, memory_tools_only, writable_labels
      from json_to_recordset(${JSON.stringify(added)}::json)
        as r (place int, client_tools_json text, result_format_json text, model text, takes_budget boolean,
          takes_adaptive boolean, thinks_always boolean, system text, tool_choice_json text, memory_tools_only boolean, writable_labels text[])
      cross join lateral json_to_record(coalesce(r.tool_choice_json, '{}')::json)
        as c (add text[], remove text[], "only" text[], server_tools json)
    ), alike as (
      -- Agents of a fleet are mostly equal: a digest of their parts groups them, so that each content is serialized once.
      -- Any of their ids will do; any_value() needs PostgreSQL 16.
      select (array_agg(w.agent_id))[1] as agent_id, w.added, w.tool_ids,
        string_agg(w.place::text, ',') as places, string_agg(w.conversation_id::text, ',') as conversation_ids
      from (
        select w.place, w.added, a.id as agent_id, a.conversation_id,
          ${tool_ids} as tool_ids, sha256(record_send(${digest})) as digest
        from unnest((select ${agentIds}::uuid[]), (select ${addedPlaces}::int[]))
          with ordinality as w (agent_id, added, place)
        join agent a on a.id = w.agent_id
        ${joined}
        -- Wrapped, because for plain conditions outdated statistics predict a single agent.
        where coalesce(a.project_id = ${projectId}::uuid and a.deleted_at is null, false)
      ) w
      group by w.digest, w.tool_ids, w.added
    ), toolbox ${AS_FIRST} (
      -- Unequal agents mostly have the same tools: each list is serialized once and holds its agents, because a join with
      -- the lists would compare all pairs where statistics predict few.
      select s.*, coalesce((
        select json_agg(
          case when t.source is null then
            json_build_object('name', t.name, 'kind', t.kind, 'description', t.description,
              'input_schema', t.input_schema, 'side_effects', t.side_effects, 'return_char_limit', t.return_char_limit,
              'timeout_ms', t.timeout_ms, 'requires_approval', t.requires_approval)
          else
            json_build_object('name', t.name, 'kind', t.kind, 'description', t.description,
              'input_schema', t.input_schema, 'side_effects', t.side_effects, 'return_char_limit', t.return_char_limit,
              'timeout_ms', t.timeout_ms, 'requires_approval', t.requires_approval, 'source', t.source)
          end order by u.position)
        from unnest(s.tool_ids) with ordinality as u (id, position) join tool t on t.id = u.id
      ), '[]')::text as tools,
      exists (select from tool t where t.id = any(s.tool_ids) and t.kind = 'memory' and t.name = any(${STORE_NAMES})) as shows_counts
      from (
        select tool_ids, array_agg(agent_id) as agent_ids, array_agg(added) as added, array_agg(places) as places,
          array_agg(conversation_ids) as conversation_ids
        from alike group by tool_ids
      ) s
    ), equipped as (
      select s.places, s.conversation_ids, d.client_tools, nullif(coalesce(d.result_format, a.result_format::text), 'none') as result_format,
        a.project_id, ${own.agent_type} as agent_type, ${own.system} as system, ${own.model} as model,
        ${own.model_settings} as model_settings, ${own.tool_rules} as tool_rules, d.writable_labels, d.tool_choice, a.context_window_limit,
        a.compaction, nullif(${own.server_tools}::text, '[]') as server_tools,
        -- Joins two JSON arrays as text.
        case when d.client_tools is null then b.tools when b.tools = '[]' then d.client_tools
             else left(b.tools, -1) || ', ' || substr(d.client_tools, 2) end as tools,
        b.shows_counts
      from toolbox b
      cross join unnest(b.agent_ids, b.added, b.places, b.conversation_ids) as s (agent_id, added, places, conversation_ids)
      join added d on d.place = s.added
      join agent a on a.id = s.agent_id
    ), content as (
      select places, conversation_ids, client_tools, result_format, agent_type, system, model, model_settings, tool_rules,
        tools, context_window_limit, compaction, shows_counts, writable_labels, tool_choice, server_tools,
        encode(substr(sha256(convert_to(concat(json_build_array(project_id, agent_type, system, model,
          model_settings::text, tool_rules::text, tools, result_format,
          context_window_limit, compaction::text), writable_labels, tool_choice, server_tools, ${STRICT_SUFFIX}::text), 'UTF8')), 1, 16), 'hex')::uuid as definition_id
      from equipped
    )`;
}

/** The requests that share a content, as `content` has them: two lists of equal length. */
export interface ContentOwners {
  /** Places of the requests, from 1. */
  readonly places: string;
  /** The conversations of their agents. */
  readonly conversation_ids: string;
}

/** Selects the requests that share a content, each with its agent's conversation. */
export function ownersOf(
  requests: readonly RequestedDefinition[],
  { places, conversation_ids }: ContentOwners,
): readonly { readonly request: RequestedDefinition; readonly conversation_id: string }[] {
  const conversations = conversation_ids.split(',');
  return places.split(',').map((place, index) => ({
    request: requests[Number(place) - 1] as RequestedDefinition,
    conversation_id: conversations[index] as string,
  }));
}

/** An agent as an accept would freeze it now. */
export interface AgentDefinition {
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly definition: Definition;
}

/**
 * Reads the definitions that an accept would freeze, by the keys of the requests, without storing them. Missing and deleted
 * agents are left out.
 */
export async function readAgentDefinitions(
  db: Database,
  projectId: string,
  requests: readonly RequestedDefinition[],
): Promise<ReadonlyMap<string, AgentDefinition>> {
  const { rows } = await sql<Omit<Definition, 'id' | 'strict'> & ContentOwners & { definition_id: string }>`
    with ${agentContents(projectId, requests)}
    select places, conversation_ids, definition_id, agent_type, system, model, model_settings, tool_rules, tools::json as tools,
           result_format::json as result_format, context_window_limit, compaction, writable_labels,
           server_tools::json as server_tools
      from content
  `.execute(db);
  const agents = new Map<string, AgentDefinition>();
  for (const { places, conversation_ids, definition_id, ...rest } of rows) {
    const definition = { id: definition_id, ...rest, strict: strictPartsOf(rest) };
    for (const { request, conversation_id } of ownersOf(requests, { places, conversation_ids })) {
      agents.set(request.key, { agent_id: request.agent_id, conversation_id, definition });
    }
  }
  return agents;
}

/** The facts about a run's agent that decide whether the run can be accepted. */
export interface RunAgent {
  readonly conversation_id: string;
  readonly definition_id: string;
  /** The definition already has a row. */
  readonly is_stored: boolean;
  /** Handle. */
  readonly model: string;
  /** Unit: tokens. */
  readonly context_window_limit: number;
  /** Parts of the definition that may conflict; null without tool rules, client tools, server tools and a choice of tools. */
  readonly doubts: Pick<Definition, 'tool_rules' | 'tools' | 'server_tools' | 'result_format'> | null;
}

/**
 * Reads the agents of runs by the keys of their requests. Missing and deleted agents are left out.
 * Index: primary keys; one statement.
 */
export async function readRunAgents(
  db: Database,
  projectId: string,
  requests: readonly RequestedDefinition[],
): Promise<ReadonlyMap<string, RunAgent>> {
  const { rows } = await sql<Omit<RunAgent, 'conversation_id'> & ContentOwners>`
    with ${agentContents(projectId, requests)}
    select places, conversation_ids, definition_id, model, context_window_limit,
           exists (select from definition d where d.id = c.definition_id) as is_stored,
           case when json_array_length(tool_rules) > 0 or client_tools is not null or tool_choice is not null
                     or server_tools is not null
                then json_build_object('tool_rules', tool_rules, 'tools', tools::json, 'server_tools', server_tools::json,
                  'result_format', result_format::json) end as doubts
      from content c
  `.execute(db);
  const agents = new Map<string, RunAgent>();
  for (const { places, conversation_ids, ...rest } of rows) {
    for (const { request, conversation_id } of ownersOf(requests, { places, conversation_ids })) {
      agents.set(request.key, { conversation_id, ...rest });
    }
  }
  return agents;
}
