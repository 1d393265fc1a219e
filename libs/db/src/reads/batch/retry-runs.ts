import type { JsonObject, ResultFormat, ToolChoice, ToolDefinition } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { readCutPage } from '../cut-page.ts';

/** A run to try again, with its input. */
export interface RunToRetry {
  readonly ordinal: number;
  readonly agent_id: string;
  /** The agent's own conversation. */
  readonly conversation_id: string;
  readonly is_agent_deleted: boolean;
  readonly isolated: boolean;
  readonly custom_id: string | null;
  readonly max_steps: number;
  readonly max_cost_nanousd: number | null;
  readonly max_output_tokens: number | null;
  readonly definition_id: string;
  /** Content as stored; null if the input is gone. */
  readonly messages:
    | readonly {
        readonly role: 'user' | 'assistant' | 'system';
        readonly content: string;
        readonly otid: string | null;
        readonly name: string | null;
      }[]
    | null;
}

/**
 * Reads the next runs that a batch tries again, in order, as many as a page holds.
 * The input of a run ends where its first request ended; of a run without a request, where the run ended.
 * Index: primary keys.
 */
export async function readRunsToRetry(
  db: Database,
  batchId: string,
  from: number,
  limit: number,
): Promise<readonly RunToRetry[]> {
  const { rows } = await readCutPage<RunToRetry>(
    db,
    sql`
    select t.ordinal, r.agent_id, a.conversation_id, a.deleted_at is not null as is_agent_deleted,
           r.conversation_id <> a.conversation_id as isolated, r.custom_id, r.max_steps, r.max_cost_nanousd, r.max_output_tokens,
           r.definition_id, coalesce(i.messages, u.messages) as messages
      from batch_retry_run t
     cross join lateral (select * from run where id = t.run_id offset 0) r
     cross join lateral (select conversation_id, deleted_at from agent where id = r.agent_id offset 0) a
      left join lateral (
        select json_agg(json_build_object('role', m.role, 'content', m.content::text, 'otid', m.otid, 'name', m.name) order by m.seq) as messages
          from message m
         where m.conversation_id = r.conversation_id and m.run_id = r.id and m.seq >= r.first_seq
           and m.seq <= coalesce((select s.context_to_seq from step s where s.run_id = r.id and not s.is_summary
                                   order by s.number, s.attempt limit 1), r.last_seq)) i on r.first_seq is not null
      left join lateral (
        select json_agg(json_build_object('role', e.value ->> 'role', 'content', (e.value -> 'content')::text,
                                          'otid', e.value ->> 'otid', 'name', e.value ->> 'name') order by e.place) as messages
          from unstarted_input q cross join lateral json_array_elements(q.messages) with ordinality as e(value, place)
         where q.run_id = r.id) u on r.first_seq is null
     where t.batch_id = ${batchId}::uuid and t.ordinal >= ${from} and t.ordinal < ${from + limit}
     order by t.ordinal`,
    sql`octet_length(p.messages::text)`,
  );
  return rows;
}

/** The parts of a frozen definition that a run with another definition needs. */
export interface FrozenDefinition {
  readonly id: string;
  /** Handle. */
  readonly model: string;
  readonly context_window_limit: number;
  readonly tools: readonly ToolDefinition[];
  readonly result_format: ResultFormat | null;
  readonly tool_choice: ToolChoice | null;
}

/** Reads frozen definitions. Index: primary key. */
export async function readFrozenDefinitions(
  db: Database,
  ids: readonly string[],
): Promise<ReadonlyMap<string, FrozenDefinition>> {
  const { rows } = await sql<FrozenDefinition>`
    select id, model, context_window_limit, tools, result_format, tool_choice from definition where id = ${anyUuid(ids)}
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** The tools and the result format of an agent as they are now. */
export interface AgentFormat {
  readonly id: string;
  readonly tool_names: readonly string[];
  readonly result_format: JsonObject | null;
}

/** Reads the tools and result formats of agents. Index: primary keys. */
export async function readAgentFormats(
  db: Database,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, AgentFormat>> {
  const { rows } = await sql<AgentFormat>`
    select a.id, a.result_format,
           array(select t.name from agent_tool k join tool t on t.id = k.tool_id where k.agent_id = a.id) as tool_names
      from agent a where a.id = ${anyUuid(agentIds)}
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}
