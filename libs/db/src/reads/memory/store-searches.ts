import type {
  ArchivalHit,
  ArchivalSearch,
  ConversationHit,
  ConversationSearch,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** The step that searches. */
interface SearchingStep {
  readonly run_id: string;
  readonly step_number: number;
}
/** What an agent looks for in its archival memory. */
export type PassageSearch = ArchivalSearch &
  SearchingStep & { readonly agent_id: string; readonly batch_id: string };
/** What a run looks for in its conversation. */
export type MessageSearch = ConversationSearch & SearchingStep & { readonly conversation_id: string };

/** The time zones of agents, and the time. Index: primary key. */
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

/** Any word of a query will do; the more of them, the better the rank. A word may hold an ampersand itself, but no space. */
const anyWord = sql`replace(plainto_tsquery('english', d.query)::text, ' & ', ' | ')::tsquery`;

/**
 * An escaped NUL or surrogate, which `json` cannot take apart, or not alone: an odd number of backslashes stands before its
 * `u`. One expression that tells the halves of a pair from lone ones takes time that grows with the square of their number.
 */
const UNREADABLE = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})`;
const REPLACEMENT = String.raw`\1\\ufffd`;

/** The content of a message that is stored wrapped (ADR 0003), with U+FFFD for each of these. */
const unwrapped = sql`regexp_replace(l.content #>> '{}', ${UNREADABLE}, ${REPLACEMENT}, 'gi')::json`;

/**
 * Searches of one statement. One over 20,000 passages takes a tenth of a second to a third, and one of a long conversation
 * as long: as many as a chunk may hold would together take longer than a statement may.
 */
const SEARCHES_MAX = 25;

/** What each of the searches finds, in the order given. */
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
 * Passages that fit searches and that another step has kept, best first, for each search in the order given. A search
 * without a word that counts finds the latest. Each reaches all passages of its agent, however many: ranks are those of
 * `ts_rank`, whose time grows with the words of a query and not, as that of `ts_rank_cd`, with how often a passage has any
 * of them times how many there are. One statement for every so many searches. Index: `passage_by_agent`.
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
 * How far a search of a conversation reaches. A conversation that is as old as its agent must not hold up the results that
 * are applied with the search, and Postgres refuses a text with more different words than 1 MB.
 */
/** The latest messages of those asked for, */
const MESSAGES_MAX = 2_000;
/** as many of them as take up no more than this in the table, where they are compressed, */
const STORED_BYTES_MAX = 2_000_000;
/** and what each begins with, which is what is found of it, too. */
const CHARS_MAX = 100_000;

/**
 * Messages of conversations that fit searches, best first or, without a query, latest first. The latest messages are
 * searched, without what tools said, what was thought and what the step itself has said, and from before a reset nothing is.
 * Ranks and statements are as of passages. Index: primary keys of `message` and `conversation`.
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
  // UNMERGED keeps the planner from putting the words of a text in twice, for the match and for the rank.
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
               select m.role, m.content, m.created_at, m.seq,
                      sum(pg_column_size(m.content)) over (order by m.seq desc rows between unbounded preceding and 1 preceding)
                        as later_bytes
                 from message m
                where m.conversation_id = d.conversation_id and m.role = any(d.roles)
                  and m.seq > (select c.reset_seq from conversation c where c.id = d.conversation_id)
                  and (m.run_id, m.step_number) is distinct from (d.run_id, d.step_number)
                  and (d."from" is null or m.created_at >= d."from") and (d."to" is null or m.created_at <= d."to")
                order by m.seq desc
                limit ${MESSAGES_MAX}) l
            cross join lateral (
              select left(string_agg(e.value->>'text', E'\n' order by e.place), ${CHARS_MAX}) as content
                from json_array_elements(case when json_typeof(l.content) = 'array' then l.content else ${unwrapped} end)
                       with ordinality as e(value, place)
               where e.value->>'type' = 'text') t
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
