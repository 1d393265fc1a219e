import {
  messageKeyOf,
  toStorableText,
  type ReturnedCall,
  type ReturnedCalls,
  type ContentBlock,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { readDirection, refuseCursor, type Page } from '../keyset.ts';
import type { RunRow } from './runs.ts';

/** A message as stored, with the step attempt that wrote it. */
export interface MessageRow {
  readonly conversation_id: string;
  readonly seq: number;
  readonly run_id: string | null;
  readonly step_number: number | null;
  /** The applied attempt, and the provider's name of its model; null for messages without a step. */
  readonly attempt: number | null;
  readonly model: string | null;
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly ContentBlock[];
  readonly otid: string | null;
  readonly name: string | null;
  /** Time at which an appended message was said; null: unknown. */
  readonly said_at: Date | null;
  readonly created_at: Date;
}

/** A message of a batch, with the agent and custom id of its run. */
export interface BatchMessageRow extends MessageRow {
  readonly agent_id: string;
  readonly custom_id: string | null;
}

/** Filters of a list of a batch's messages; null does not filter. */
export interface BatchMessageFilter {
  readonly agent_id: string | null;
  readonly custom_id: string | null;
}

type Stored<Row extends MessageRow> = Omit<Row, 'content'> & {
  readonly content: readonly ContentBlock[] | string;
};

const columns = sql`m.conversation_id, m.seq, m.run_id, m.step_number, s.attempt, s.model, m.role, m.content, m.otid,
  m.name, m.said_at, m.created_at`;
const step = sql`step s on s.run_id = m.run_id and s.number = m.step_number and s.applied_at is not null`;

/** The requested messages of a conversation, always returned in chronological order. */
export interface MessageRange {
  readonly limit: number;
  /** Exclusive bounds of the message numbers. */
  readonly above: number | null;
  readonly below: number | null;
  /** The end of the range from which `limit` counts. */
  readonly from: 'oldest' | 'newest';
}

/** Reads messages of a conversation in chronological order. Index: primary key. */
export async function listConversationMessages(
  db: Database,
  conversationId: string,
  range: MessageRange,
): Promise<Listed<MessageRow>> {
  const { rows, is_cut } = await readCutPage<Stored<MessageRow>>(
    db,
    sql`
    select ${columns} from message m left join ${step}
    where m.conversation_id = ${conversationId}
      and m.seq > ${range.above ?? -1} and m.seq < ${range.below ?? 2 ** 31 - 1}
    order by m.seq ${range.from === 'oldest' ? sql`asc` : sql`desc`} limit ${range.limit}
  `,
    sql`octet_length(p.content::text)`,
  );
  const messages = rows.map(unwrap);
  return { rows: range.from === 'oldest' ? messages : messages.reverse(), is_cut };
}

/** The first message that requests show, the last before the latest reset, and the last of a conversation; 0 for none. */
export interface ContextSeqs {
  readonly from_seq: number;
  readonly reset_seq: number;
  readonly last_seq: number;
}

export async function readContextSeqs(db: Database, conversationId: string): Promise<ContextSeqs> {
  const seqs = await readContextSeqsOf(db, [conversationId]);
  return seqs.get(conversationId) ?? { from_seq: 0, reset_seq: 0, last_seq: 0 };
}

/** Reads these numbers for each existing conversation. Index: primary keys, two look-ups per conversation. */
export async function readContextSeqsOf(
  db: Database,
  conversationIds: readonly string[],
): Promise<ReadonlyMap<string, ContextSeqs>> {
  const { rows } = await sql<ContextSeqs & { id: string }>`
    select c.id, c.context_from_seq as from_seq, c.reset_seq,
           coalesce((select m.seq from message m where m.conversation_id = c.id order by m.seq desc limit 1), 0) as last_seq
      from conversation c where c.id = any(${[...conversationIds]}::uuid[])
  `.execute(db);
  return new Map(rows.map(({ id, ...seqs }) => [id, seqs]));
}

/**
 * Reads a page of a batch's messages, inputs included, by their run's place in the batch, then in writing order.
 * Index: the unique (batch, ordinal), then the primary key of `message`; only messages of one run are sorted.
 */
export async function listBatchMessages(
  db: Database,
  batchId: string,
  page: Page,
  filter: BatchMessageFilter,
): Promise<Listed<BatchMessageRow>> {
  const reads = readDirection(page);
  const direction = reads === 'asc' ? sql`asc` : sql`desc`;
  const conditions = [
    ...(await toCursorCondition(db, batchId, page, 'after')),
    ...(await toCursorCondition(db, batchId, page, 'before')),
    ...(filter.agent_id === null ? [] : [sql`r.agent_id = ${filter.agent_id}`]),
    ...(filter.custom_id === null ? [] : [sql`r.custom_id = ${toStorableText(filter.custom_id)}`]),
  ];
  const { rows, is_cut } = await readCutPage<Stored<BatchMessageRow>>(
    db,
    sql`
    select ${columns}, r.agent_id, r.custom_id
    from run r join message m on m.conversation_id = r.conversation_id and m.seq between r.first_seq and r.last_seq
    left join ${step}
    where r.batch_id = ${batchId} and ${sql.join([sql`true`, ...conditions], sql` and `)}
    order by r.ordinal ${direction}, m.seq ${direction} limit ${page.limit}
  `,
    sql`octet_length(p.content::text)`,
  );
  const messages = rows.map(unwrap);
  return { rows: reads === page.order ? messages : messages.reverse(), is_cut };
}

/** The messages beyond the cursor. Throws: `validation_failed` for a message of another batch. */
async function toCursorCondition(
  db: Database,
  batchId: string,
  page: Page,
  side: 'after' | 'before',
): Promise<readonly RawBuilder<unknown>[]> {
  const cursor = page[side];
  if (cursor === null) return [];
  const up = (page.order === 'asc') === (side === 'after');
  const key = messageKeyOf(cursor);
  const { rows } = await sql<{ ordinal: number }>`
    select r.ordinal from message m join run r on r.id = m.run_id
    where m.conversation_id = ${key.conversation_id} and m.seq = ${key.seq} and r.batch_id = ${batchId}
  `.execute(db);
  const [run] = rows;
  if (run === undefined) refuseCursor(side === 'after' ? (page.after_name ?? side) : side);
  // The first condition can use the index of runs; the second is exact.
  return up
    ? [
        sql`r.ordinal >= ${run.ordinal}`,
        sql`(r.ordinal, m.seq) > (${run.ordinal}::integer, ${key.seq}::integer)`,
      ]
    : [
        sql`r.ordinal <= ${run.ordinal}`,
        sql`(r.ordinal, m.seq) < (${run.ordinal}::integer, ${key.seq}::integer)`,
      ];
}

/** Reads the messages of runs, by run in the given order, then in writing order. Index: primary keys. */
export async function readMessagesOfRuns(
  db: Database,
  runs: readonly Pick<RunRow, 'conversation_id' | 'first_seq' | 'last_seq'>[],
): Promise<readonly (MessageRow & { readonly place: number })[]> {
  const { rows } = await sql<Stored<MessageRow & { readonly place: number }>>`
    select r.place::int as place, ${columns}
      from unnest(${uuidArray(runs.map((run) => run.conversation_id))}::uuid[], ${runs.map((run) => run.first_seq)}::int[],
                  ${runs.map((run) => run.last_seq)}::int[]) with ordinality as r(conversation_id, first_seq, last_seq, place)
     cross join lateral (
       select * from message where conversation_id = r.conversation_id and seq between r.first_seq and r.last_seq ${UNMERGED}) m
      left join lateral (
        select attempt, model from step where run_id = m.run_id and number = m.step_number and applied_at is not null ${UNMERGED}) s
        on true
     order by r.place, m.seq
  `.execute(db);
  return rows.map(unwrap);
}

function unwrap<Row extends MessageRow>(row: Stored<Row>): Row {
  return { ...row, content: parseContent(row.content) } as unknown as Row;
}

/** Parses wrapped content, which is stored as text; see `toStorable`. */
export function parseContent(content: readonly ContentBlock[] | string): readonly ContentBlock[] {
  return typeof content === 'string' ? (JSON.parse(content) as readonly ContentBlock[]) : content;
}

/**
 * Reads the calls whose results are in these messages, by tool use id: results do not name the tool, and the calls may be on
 * another page. Index: primary keys of `tool_call` and `tool_call_output`.
 */
export async function readReturnedCalls(
  db: Database,
  messages: readonly MessageRow[],
): Promise<ReturnedCalls> {
  const answering = messages.filter((message) => message.role === 'user' && message.step_number !== null);
  if (answering.length === 0) return new Map();
  const { rows } = await sql<ReturnedCall & { readonly tool_use_id: string }>`
    select t.tool_use_id, t.tool_name, o.stdout, o.stderr
    from unnest(${answering.map((message) => message.run_id)}::uuid[], ${answering.map((message) => message.step_number)}::integer[])
      as s (run_id, number)
    join tool_call t on t.run_id = s.run_id and t.step_number = s.number
    left join lateral (
      select stdout, stderr from tool_call_output
       where run_id = t.run_id and step_number = t.step_number and call_index = t.call_index ${UNMERGED}) o on true
  `.execute(db);
  return new Map(rows.map((row) => [row.tool_use_id, row]));
}
