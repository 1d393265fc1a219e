import type { StopReason } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { imageBytesIn, imagesIn } from '../media.ts';
import { uuidArray } from '../../uuid-array.ts';

/** The size of a conversation in a request that shows it. */
export interface ConversationSize {
  readonly messages: number;
  /** Bytes of the messages as JSON, without separating commas. */
  readonly bytes: number;
  /** Number of images, and the bytes of inline images. */
  readonly images: number;
  readonly image_bytes: number;
  /** Number of documents. */
  readonly documents: number;
  /** The summary of messages no longer shown, and their number; null for none. */
  readonly summary: string | null;
  readonly hidden: number | null;
}

/** Reads the sizes of conversations in the next request. Index: primary keys of `conversation` and `message`. */
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
           coalesce(sum(${imagesIn(sql.ref('m.content'))}), 0)::int as images,
           coalesce(sum(regexp_count(m.content::text, '"document"')), 0)::int as documents,
           coalesce(sum(${imageBytesIn(sql.ref('m.content'))}), 0)::bigint as image_bytes
      from conversation c
      left join message m on m.conversation_id = c.id and m.seq >= c.context_from_seq and m.shown
      left join conversation_summary o on o.conversation_id = c.id and o.to_seq = c.summary_to_seq
     where c.id = any(${uuidArray(conversationIds)}::uuid[])
     group by c.id
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** The end of an agent's last run. */
export interface LastRun {
  readonly stop_reason: StopReason;
  /** Null for a run that ended before it started. */
  readonly started_at: Date | null;
  readonly ended_at: Date;
}

/** Maximum runs per agent searched for an ended run: the latest. */
const LATEST_RUNS = 100;

/**
 * Reads each agent's latest ended run, by accept time. Agents without an ended run among their 100 latest are left out,
 * because a list of agents must not depend on the number of runs.
 * Index: `run_by_agent`.
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
