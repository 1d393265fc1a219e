import type { ArchivalHit, ConversationHit, MessageSearch, PassageSearch } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { readableText } from '../readable-text.ts';

/** Reads the time zones of agents, and the time. Index: primary key. */
export async function readTimeZones(
  trx: Tx,
  agentIds: readonly string[],
): Promise<{ readonly now: Date; readonly zones: ReadonlyMap<string, string> }> {
  const { rows } = await sql<{ id: string; timezone: string; now: Date }>`
    select id, timezone, app_now() as now from agent where id = any(${[...agentIds]}::uuid[])
  `.execute(trx);
  return {
    now: rows[0]?.now ?? new Date(0),
    zones: new Map(rows.map((row) => [row.id, row.timezone])),
  };
}

/** Matches any word of a query, ranked by the number of matches. A word may contain an ampersand, but no space. */
const anyWord = sql`replace(plainto_tsquery('english', d.query)::text, ' & ', ' | ')::tsquery`;

/**
 * Maximum searches of one statement: a search of 20,000 passages or of a long conversation takes a tenth to a third of a
 * second, and a chunk of searches together would exceed the statement timeout.
 */
const SEARCHES_MAX = 25;

/** Searches in portions and returns the hits of each search, in the given order. */
async function inPortions<S, H>(
  searches: readonly S[],
  search: (portion: readonly S[]) => Promise<readonly (readonly H[])[]>,
): Promise<readonly (readonly H[])[]> {
  const found: (readonly H[])[] = [];
  for (let from = 0; from < searches.length; from += SEARCHES_MAX)
    found.push(...(await search(searches.slice(from, from + SEARCHES_MAX))));
  return found;
}

/**
 * Searches passages stored by other steps and returns the best hits of each search, in the given order. A search without a
 * significant word returns the latest passages.
 * Each search reads all passages of its agent. It ranks by `ts_rank`, whose time grows with the words of the query; that of
 * `ts_rank_cd` grows with the product of matches and words.
 * Index: `passage_by_agent`; one statement per portion.
 */
export function searchPassages(
  trx: Tx,
  searches: readonly PassageSearch[],
): Promise<readonly (readonly ArchivalHit[])[]> {
  return inPortions(searches, (portion) => searchSomePassages(trx, portion));
}

async function searchSomePassages(
  trx: Tx,
  searches: readonly PassageSearch[],
): Promise<readonly (readonly ArchivalHit[])[]> {
  const payload = searches.map((search, place) => ({ place, ...search }));
  const { rows } = await sql<ArchivalHit & { place: number }>`
    select d.place, p.id, p.content, p.tags, p.created_at, p.rank
      from (select x.*, ${anyWord} as words from json_to_recordset(${JSON.stringify(payload)}::json) as d(
              place int, agent_id uuid, batch_id uuid, run_id uuid, step_number int, query text, tags text[],
              tag_match text, "limit" int, "from" timestamptz, "to" timestamptz) cross join lateral (select d.*) x) d
     cross join lateral (
       select p.id, p.content, p.tags, p.created_at,
              case when numnode(d.words) > 0 then ts_rank(p.words, d.words)::float8 end as rank
         from passage p
        where p.agent_id = d.agent_id and (p.held_by_batch_id is null or p.held_by_batch_id = d.batch_id)
          and (p.run_id, p.step_number) <> (d.run_id, d.step_number)
          and (numnode(d.words) = 0 or p.words @@ d.words)
          and (cardinality(d.tags) = 0 or case d.tag_match when 'all' then p.tags @> d.tags else p.tags && d.tags end)
          and (d."from" is null or p.created_at >= d."from") and (d."to" is null or p.created_at <= d."to")
        order by rank desc nulls last, p.created_at desc, p.id
        limit d."limit") p
     order by d.place, p.rank desc nulls last, p.created_at desc, p.id
  `.execute(trx);
  const found = Map.groupBy(rows, (row) => row.place);
  return searches.map((_search, place) => found.get(place) ?? []);
}

/*
 * Limits of a search in a conversation. An old conversation must not delay the results that are applied with the search,
 * and Postgres refuses a text with more than 1 MB of distinct words.
 */
/** The latest messages searched. */
const MESSAGES_MAX = 2_000;
/** Maximum compressed size of the searched messages in the table. Unit: bytes. */
const STORED_BYTES_MAX = 2_000_000;
/** Maximum characters searched and returned per message, from its beginning. */
const CHARS_MAX = 100_000;

/**
 * Searches messages of conversations and returns the best hits first, or the latest without a query. Searched are the
 * latest messages since the last reset, without tool results, thoughts and the step's own messages. Ranks and statements
 * are as in {@link searchPassages}.
 * Index: primary keys of `message` and `conversation`.
 */
export function searchMessages(
  trx: Tx,
  searches: readonly MessageSearch[],
): Promise<readonly (readonly ConversationHit[])[]> {
  return inPortions(searches, (portion) => searchSomeMessages(trx, portion));
}

async function searchSomeMessages(
  trx: Tx,
  searches: readonly MessageSearch[],
): Promise<readonly (readonly ConversationHit[])[]> {
  const payload = searches.map((search, place) => ({ place, ...search }));
  // UNMERGED keeps the planner from computing a text's words twice, for the match and for the rank.
  const { rows } = await sql<ConversationHit & { place: number }>`
    select d.place, m.role, m.content, m.created_at, m.rank
      from (select x.*, ${anyWord} as words from json_to_recordset(${JSON.stringify(payload)}::json) as d(
              place int, conversation_id uuid, run_id uuid, step_number int, query text, roles text[],
              "limit" int, "from" timestamptz, "to" timestamptz) cross join lateral (select d.*) x) d
     cross join lateral (
       select v.role, v.content, v.created_at, v.seq,
              case when numnode(d.words) > 0 then ts_rank(v.words, d.words)::float8 end as rank
         from (
           select l.role, t.content, l.created_at, l.seq,
                  case when numnode(d.words) > 0 then to_tsvector('english', t.content) end as words
             from (
               select m.role, m.content, o.created_at, m.seq,
                      sum(pg_column_size(m.content)) over (order by m.seq desc rows between unbounded preceding and 1 preceding)
                        as later_bytes
                 from message m
                -- An appended message counts by the time at which it was said.
                cross join lateral (select coalesce(m.said_at, m.created_at) as created_at) o
                where m.conversation_id = d.conversation_id and m.role = any(d.roles)
                  and m.seq > (select c.reset_seq from conversation c where c.id = d.conversation_id)
                  and (m.run_id, m.step_number) is distinct from (d.run_id, d.step_number)
                  and (d."from" is null or o.created_at >= d."from") and (d."to" is null or o.created_at <= d."to")
                order by m.seq desc
                limit ${MESSAGES_MAX}) l
            cross join lateral (
              select left(${readableText(sql`l.content`)}, ${CHARS_MAX}) as content) t
            where coalesce(l.later_bytes, 0) < ${STORED_BYTES_MAX} and t.content is not null
           ${UNMERGED}) v
        where coalesce(numnode(d.words), 0) = 0 or v.words @@ d.words
        order by rank desc nulls last, v.seq desc
        limit d."limit") m
     order by d.place, m.rank desc nulls last, m.seq desc
  `.execute(trx);
  const found = Map.groupBy(rows, (row) => row.place);
  return searches.map((_search, place) => found.get(place) ?? []);
}
