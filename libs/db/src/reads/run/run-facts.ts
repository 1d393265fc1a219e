import type { StopReason } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** What a conversation adds to a request that shows it. */
export interface ConversationSize {
  readonly messages: number;
  /** Bytes of the messages as JSON, without the commas between them. */
  readonly bytes: number;
  /** Pictures in them, and bytes of those that are sent along. */
  readonly images: number;
  readonly image_bytes: number;
  /** Documents in them. */
  readonly documents: number;
  /** What stands for messages that are no longer shown, and how many those are; null for none. */
  readonly summary: string | null;
  readonly hidden: number | null;
}

/** Sizes of conversations as the next request would show them. Index: the primary keys of `conversation` and `message`. */
export async function readConversationSizes(
  db: Database,
  conversationIds: readonly string[],
): Promise<ReadonlyMap<string, ConversationSize>> {
  if (conversationIds.length === 0) return new Map();
  const { rows } = await sql<ConversationSize & { id: string }>`
    select c.id, count(m.seq)::int as messages, max(o.summary) as summary, max(o.hidden)::int as hidden,
           coalesce(sum(octet_length(
             '{"role":"' || m.role || '","content":'
             || case when left(m.content::text, 1) = '"' then m.content #>> '{}' else m.content::text end || '}')), 0)::bigint
             as bytes,
           coalesce(sum(regexp_count(m.content::text, '"image"')), 0)::int as images,
           coalesce(sum(regexp_count(m.content::text, '"document"')), 0)::int as documents,
           coalesce(sum(case when m.content::text ~ '"image/' then octet_length(m.content::text) - octet_length(regexp_replace(
             m.content::text, '("type":"base64","media_type":"image/[^"]*","data":")[A-Za-z0-9+/=]*', '\\1', 'g')) end), 0)::bigint
             as image_bytes
      from conversation c
      left join message m on m.conversation_id = c.id and m.seq >= c.context_from_seq and m.shown
      left join conversation_summary o on o.conversation_id = c.id and o.to_seq = c.summary_to_seq
     where c.id = any(${uuidArray(conversationIds)}::uuid[])
     group by c.id
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** What earlier runs of an agent took on average. */
export interface RunHistory {
  readonly steps: number;
  readonly output_tokens_per_step: number;
}

/** Runs of an agent that are looked at, the latest. */
const RUNS_OF_AGENT = 5;

/** Averages of the latest ended runs of agents; an agent without any is left out. Index: `run_by_agent`, then `step`'s key. */
export async function readRunHistory(
  db: Database,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, RunHistory>> {
  if (agentIds.length === 0) return new Map();
  const { rows } = await sql<RunHistory & { agent_id: string }>`
    select a.id as agent_id, avg(s.steps)::float8 as steps,
           (sum(s.tokens) / sum(s.steps))::float8 as output_tokens_per_step
      from unnest(${uuidArray(agentIds)}::uuid[]) as a(id)
     cross join lateral (
       select r.id from run r
        where r.agent_id = a.id and r.ended_at is not null and r.started_at is not null
        order by r.created_at desc, r.id desc limit ${RUNS_OF_AGENT}) r
     cross join lateral (
       select count(*) as steps, sum(output_tokens) as tokens from step where run_id = r.id and applied_at is not null) s
     where s.steps > 0
     group by a.id
  `.execute(db);
  return new Map(rows.map((row) => [row.agent_id, row]));
}

/** How the last run of an agent has ended. */
export interface LastRun {
  readonly stop_reason: StopReason;
  /** Null for one that ended before it started. */
  readonly started_at: Date | null;
  readonly ended_at: Date;
}

/** Runs of an agent among which one that has ended is looked for, the latest. */
const LATEST_RUNS = 100;

/**
 * Of each agent the latest run, by when it was accepted, that has ended. An agent without one is left out, and so is one whose
 * 100 latest runs are all open: a list of agents must not wait for how many there are. Index: `run_by_agent`.
 */
export async function readLastRuns(
  db: Database,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, LastRun>> {
  if (agentIds.length === 0) return new Map();
  const { rows } = await sql<LastRun & { agent_id: string }>`
    select a.id as agent_id, e.stop_reason, e.started_at, e.ended_at
      from unnest(${uuidArray(agentIds)}::uuid[]) as a(id)
     cross join lateral (
       select l.stop_reason, l.started_at, l.ended_at
         from (select r.created_at, r.id, r.stop_reason, r.started_at, r.ended_at from run r
                where r.agent_id = a.id order by r.created_at desc, r.id desc limit ${LATEST_RUNS}) l
        where l.ended_at is not null
        order by l.created_at desc, l.id desc limit 1) e
  `.execute(db);
  return new Map(rows.map((row) => [row.agent_id, row]));
}
