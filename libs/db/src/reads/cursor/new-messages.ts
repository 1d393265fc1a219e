import { isJsonObject, type Json } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import { readableText } from '../readable-text.ts';

/** A text that an agent's user or the agent said. */
export interface NewMessage {
  readonly seq: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  /** When it was said, or else stored. */
  readonly at: Date;
  /** The name of its speaker; null for none. */
  readonly name: string | null;
}

/** Messages of an agent's conversation: those after `after_seq`, up to `top_seq`. */
export interface Range {
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly after_seq: number;
  readonly top_seq: number;
}

export interface Bounds {
  readonly bytes_max: number;
  readonly messages_max: number;
}

/** The new messages of the start of a range. */
export interface Scan {
  readonly count: number;
  /** Bytes of their text. */
  readonly bytes: number;
  /** In order; empty for a count. */
  readonly messages: readonly NewMessage[];
  /** The last message read. */
  readonly to_seq: number;
}

type Scanner = (db: Database, ranges: readonly Range[], bounds: Bounds) => Promise<ReadonlyMap<string, Scan>>;

/** Scans ranges until each has a new message or is read to its end. A range without new messages has no scan. */
export async function scanUntilFound(
  db: Database,
  ranges: readonly Range[],
  bounds: Bounds,
  scan: Scanner,
): Promise<ReadonlyMap<string, Scan>> {
  const found = new Map<string, Scan>();
  let open = ranges.filter((range) => range.after_seq < range.top_seq);
  while (open.length > 0) {
    const scans = await scan(db, open, bounds);
    for (const [agentId, each] of scans) if (each.count > 0) found.set(agentId, each);
    open = open.flatMap((range) => {
      const { count = 0, to_seq = range.top_seq } = scans.get(range.agent_id) ?? {};
      return count === 0 && to_seq < range.top_seq ? [{ ...range, after_seq: to_seq }] : [];
    });
  }
  return found;
}

/**
 * The first messages of the ranges `d` with their texts; null: not new. `stored_before` bounds the contents that are parsed,
 * without parsing them.
 */
function scanned(ranges: readonly Range[], { bytes_max, messages_max }: Bounds) {
  return sql`
    unnest(
      (select ${uuidArray(ranges.map((range) => range.agent_id))}::uuid[]),
      (select ${uuidArray(ranges.map((range) => range.conversation_id))}::uuid[]),
      (select ${ranges.map((range) => range.after_seq)}::int[]),
      (select ${ranges.map((range) => range.top_seq)}::int[])) as d(agent_id, conversation_id, after_seq, top_seq)
    cross join lateral (
      select w.*, t.text,
             coalesce(sum(octet_length(t.text)) over (order by w.seq rows between unbounded preceding and 1 preceding), 0)
               as bytes_before
        from (
          select m.seq, m.role, m.content, m.name, coalesce(m.said_at, m.created_at) as at,
                 m.shown and m.role in ('user', 'assistant') as may_be_new,
                 coalesce(sum(pg_column_size(m.content)) over (
                   order by m.seq rows between unbounded preceding and 1 preceding), 0) as stored_before
            from message m
           where m.conversation_id = d.conversation_id and m.seq > d.after_seq and m.seq <= d.top_seq
           order by m.seq limit ${messages_max}) w
       cross join lateral (
         select case when w.may_be_new then nullif(${readableText(sql`w.content`)}, '') end as text) t
       where w.stored_before < ${bytes_max}) x`;
}

/** Reads the new messages at the start of ranges, within the bounds per range. Index: primary key of `message`. */
export async function readMessages(
  db: Database,
  ranges: readonly Range[],
  bounds: Bounds,
): Promise<ReadonlyMap<string, Scan>> {
  const { rows } = await sql<{
    agent_id: string;
    seq: number;
    role: 'user' | 'assistant' | 'system';
    text: string | null;
    /** The content, where it is wrapped. */
    wrapped: Json | null;
    at: Date;
    name: string | null;
  }>`
    select d.agent_id, x.seq, x.role, x.text, x.at, x.name,
           case when x.text is not null and json_typeof(x.content) = 'string' then x.content end as wrapped
      from ${scanned(ranges, bounds)}
     where x.bytes_before < ${bounds.bytes_max}
     order by d.agent_id, x.seq
  `.execute(db);
  const scans = new Map<string, Scan>();
  for (const [agentId, own] of Map.groupBy(rows, (row) => row.agent_id)) {
    const messages = own.flatMap(({ seq, role, text, wrapped, at, name }): readonly NewMessage[] => {
      if (text === null || role === 'system') return [];
      return [{ seq, role, text: typeof wrapped === 'string' ? textOf(wrapped) : text, at, name }];
    });
    const bytes = messages.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    scans.set(agentId, { count: messages.length, bytes, messages, to_seq: own.at(-1)?.seq ?? 0 });
  }
  return scans;
}

/** The text blocks of a wrapped content, as {@link readableText} joins them, with every character. */
function textOf(wrapped: string): string {
  const blocks = JSON.parse(wrapped) as readonly Json[];
  return blocks
    .flatMap((block) => {
      const text = isJsonObject(block) && block['type'] === 'text' ? block['text'] : null;
      return typeof text === 'string' ? [text] : [];
    })
    .join('\n');
}

/** Counts the new messages at the start of ranges, within the bounds per range. Index: primary key of `message`. */
export async function countMessages(
  db: Database,
  ranges: readonly Range[],
  bounds: Bounds,
): Promise<ReadonlyMap<string, Scan>> {
  const { rows } = await sql<{ agent_id: string; count: number; bytes: number; to_seq: number }>`
    select d.agent_id, count(x.text)::int as count, coalesce(sum(octet_length(x.text)), 0)::bigint as bytes,
           max(x.seq) as to_seq
      from ${scanned(ranges, bounds)}
     where x.bytes_before < ${bounds.bytes_max}
     group by d.agent_id
  `.execute(db);
  return new Map(rows.map(({ agent_id, ...scan }) => [agent_id, { ...scan, messages: [] }]));
}
