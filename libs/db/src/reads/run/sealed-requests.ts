import type { BlockView, MemoryMetadata } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** The sources of one encoded request. */
export interface SealedRequest {
  readonly ordinal: number;
  readonly run_id: string;
  readonly number: number;
  readonly attempt: number;
  readonly batch_id: string;
  /** Maximum steps of its run, summaries included. */
  readonly steps_max: number;
  /** Requested tokens, limited by the window, or a summary's own. */
  readonly max_tokens: number;
  /** Number of doublings of those tokens. */
  readonly token_boost: number;
  /** Its reservation under the batch's cap; null without a cap, and before the reservation. */
  readonly reserved_output_tokens: number | null;
  readonly definition_id: string;
  /** JSON of the run's `Trail`, which few requests need; constant while the step is sealed. */
  readonly trail_json: string | null;
  /** Maximum messages shown. */
  readonly messages_max: number;
  /** It requests a summary of the messages. */
  readonly is_summary: boolean;
  /** The summary of earlier messages, and their number; null for none. */
  readonly summary: string | null;
  readonly hidden: number | null;
  /** JSON text of the messages array, with verbatim stored contents. */
  readonly messages_json: string;
  /** Whether it contains system messages. */
  readonly has_system: boolean;
  /** The blocks of its prompt. Null for none, like the revisions: an empty array costs more to read. */
  readonly block_ids: readonly string[] | null;
  readonly block_revisions: readonly number[] | null;
  /** Also null for a request sealed before labels were stored. */
  readonly block_labels: readonly string[] | null;
  /** Counts of messages and passages outside the request; null for none. */
  readonly metadata: MemoryMetadata | null;
}

/**
 * Reads the requests of a provider batch with ordinals in [from, to), in order. The sources of their prompts were fixed at
 * the sealing, so a prompt always has the same bytes.
 * Index: `step_by_provider_batch`, primary keys of message and conversation.
 */
export async function readSealedRequests(
  db: Database,
  providerBatchId: string,
  from: number,
  to: number,
): Promise<readonly SealedRequest[]> {
  return readRequestsOf(
    db,
    sql`s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal >= ${from} and s.ordinal < ${to}`,
  );
}

/** A condition for the messages of a request of step `s`, by the name of their table. */
export type ShownIn = (message: string) => RawBuilder<unknown>;

export const shownNow: ShownIn = (message) => sql.ref(`${message}.shown`);

/** Reads the requests of steps `s`, in the order of their ordinals. */
export async function readRequestsOf(
  db: Database,
  where: RawBuilder<unknown>,
  isShown: ShownIn = shownNow,
): Promise<readonly SealedRequest[]> {
  const { rows } = await sql<SealedRequest>`
    select s.ordinal, s.run_id, s.number, s.attempt, least(coalesce(s.max_tokens_fitted, s.max_tokens), case when not s.is_summary then s.answer_limit end) as max_tokens,
           r.max_steps + r.summary_steps as steps_max, r.token_boost, s.reserved_output_tokens, r.batch_id, r.definition_id, r.trail::text as trail_json, s.context_to_seq - s.context_from_seq + 1 as messages_max, s.is_summary, o.summary, o.hidden,
           case when not s.is_summary then nullif(p.block_ids, '{}') end as block_ids,
           case when not s.is_summary then nullif(p.block_revisions, '{}') end as block_revisions, p.block_labels,
           case when p.passages is not null then json_build_object(
             'agent_id', r.agent_id, 'messages', (
                -- Its run holds the conversation, so no reset comes before the request is rebuilt.
                select greatest(0, s.context_from_seq - 1 - c.reset_seq) from conversation c where c.id = r.conversation_id),
             'passages', p.passages, 'tags', p.passage_tags,
             'compiled_at', extract(epoch from date_trunc('second', p.sealed_at))::bigint,
             'conversation_id', (select nullif(r.conversation_id, a.conversation_id) from agent a where a.id = r.agent_id)
           ) end as metadata,
           coalesce(t.messages_json, '[]') as messages_json, coalesce(t.has_system, false) as has_system
      from step s
     cross join lateral (select * from run where id = s.run_id ${UNMERGED}) r
     cross join lateral (
        -- Its own row, without a look-up, unless it carries on an earlier prompt.
        select s.block_ids, s.block_revisions, s.block_labels, s.passages, s.passage_tags, s.sealed_at
         where coalesce((s.prompt_number, s.prompt_attempt) = (s.number, s.attempt), true)
        union all
        select block_ids, block_revisions, block_labels, passages, passage_tags, sealed_at from step
         where run_id = s.run_id and number = s.prompt_number and attempt = s.prompt_attempt
           and (s.prompt_number, s.prompt_attempt) <> (s.number, s.attempt)) p
     cross join lateral (
        -- Long contents are stored compressed; the inner select unpacks them once.
        select '[' || string_agg('{"role":"' || m.role || '","content":'
                    || case when ascii(m.content) = 34 then m.content::json #>> '{}' else m.content end,
                    '},' order by m.seq) || '}]' as messages_json,
               bool_or(m.role = 'system') as has_system
          from (select seq, role, content::text from message
                 where conversation_id = r.conversation_id and ${isShown('message')}
                   and seq between s.context_from_seq and s.context_to_seq
                 order by seq ${UNMERGED}) m) t
      left join lateral (
        select summary, hidden from conversation_summary
         where conversation_id = r.conversation_id and to_seq = s.summary_to_seq ${UNMERGED}) o on true
     where ${where}
     order by s.ordinal
  `.execute(db);
  return rows;
}

/**
 * Estimates the bytes of requests with these ordinals, in their order: messages, summary, blocks and system prompt.
 * Index: like the requests, and the primary keys of block_revision and definition.
 */
export async function readRequestBytes(
  db: Database,
  providerBatchId: string,
  ordinals: readonly number[],
): Promise<readonly number[]> {
  const { rows } = await sql<{ bytes: number }>`
    select (coalesce((select sum(octet_length(content::text)) from message
                       where conversation_id = r.conversation_id and shown
                         and seq between s.context_from_seq and s.context_to_seq), 0)
          + coalesce((select octet_length(summary) from conversation_summary
                       where conversation_id = r.conversation_id and to_seq = s.summary_to_seq), 0)
          + coalesce((select sum((select octet_length(value) + coalesce(octet_length(description), 0) from block_revision
                                   where block_id = ref.id and revision = ref.revision))
                        from unnest(s.block_ids, s.block_revisions) as ref(id, revision)), 0)
          + coalesce((select octet_length(system) from definition where id = r.definition_id), 0))::float8 as bytes
      from step s
     cross join lateral (select * from run where id = s.run_id ${UNMERGED}) r
     where s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal = any(${[...ordinals]}::int[])
     order by s.ordinal
  `.execute(db);
  return rows.map((row) => row.bytes);
}

/** Reads the numbers of the messages in requests, in order, by ordinal. Index: like the requests. */
export async function readShownSeqs(
  db: Database,
  providerBatchId: string,
  ordinals: readonly number[],
): Promise<ReadonlyMap<number, readonly number[]>> {
  const { rows } = await sql<{ ordinal: number; seqs: readonly number[] }>`
    select s.ordinal, coalesce((select array_agg(m.seq order by m.seq)
              from message m
             where m.conversation_id = r.conversation_id and m.shown
               and m.seq between s.context_from_seq and s.context_to_seq), '{}') as seqs
      from step s join run r on r.id = s.run_id
     where s.provider_batch_id = ${providerBatchId}::uuid and s.ordinal = any(${[...ordinals]}::int[])
  `.execute(db);
  return new Map(rows.map((row) => [row.ordinal, row.seqs]));
}

/**
 * Reads blocks at given revisions, keyed `<block id>/<revision>`, each once. Revisions keep no label, so each has the
 * present label.
 */
export async function readBlocksAt(
  db: Database,
  refs: readonly { readonly block_id: string; readonly revision: number }[],
): Promise<ReadonlyMap<string, BlockView>> {
  if (refs.length === 0) return new Map();
  const { rows } = await sql<BlockView>`
    select b.id as block_id, r.revision, b.label, r.description, r.value, r.char_limit, r.read_only
      from (select distinct id, revision
              from unnest(${refs.map((ref) => ref.block_id)}::uuid[], ${refs.map((ref) => ref.revision)}::int[])
                as given(id, revision)) ref
      join block b on b.id = ref.id
      join block_revision r on r.block_id = ref.id and r.revision = ref.revision
  `.execute(db);
  return new Map(rows.map((row) => [`${row.block_id}/${row.revision}`, row]));
}
