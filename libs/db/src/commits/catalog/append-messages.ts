import { createHash } from 'node:crypto';
import { NightshiftError, toStorable, type FieldError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';
import { uuidArray } from '../../uuid-array.ts';
import type { InputMessage } from '../batch/new-batch.ts';
import { storableText } from '../json-rows.ts';
import { rowsPerStatement } from '../rows-per-statement.ts';
import { textSlices, unnestRows } from '../unnest-rows.ts';

/**
 * Maximum number of messages of a conversation after an append. It leaves room for the messages of runs below
 * `MESSAGE_SEQ_MAX`.
 */
const CONVERSATION_MESSAGES_MAX = 16_000_000;

/** A message from outside a run. */
export interface NewAppendedMessage extends InputMessage {
  /** ISO time at which it was said; null: unknown. */
  readonly said_at: string | null;
}

/** Messages for an agent. */
export interface AppendItem {
  readonly agent_id: string;
  /** JSON pointer to the item, for errors; empty if the request is the item. */
  readonly path: string;
  /** In order of arrival. */
  readonly messages: readonly NewAppendedMessage[];
}

/** Messages of an append by their fate; the sum is the number of all messages. */
export interface AppendReport {
  /** Stored at the end of their conversations. */
  readonly appended: number;
  /** Stored before under the same `otid`. */
  readonly repeated: number;
  /** Stored beside their conversations until the runs that hold these have ended. */
  readonly waiting: number;
}

/**
 * Appends messages to the conversations of agents, in the given order and without a run. While a run holds a conversation,
 * its messages wait: the commit that ends the run appends them (`passConversationsOn`).
 * A message whose `otid` its agent has is counted and not stored.
 * Throws: `not_found` for unknown and deleted agents; `conflict` for an `otid` with another role, content, name or time, and
 * for a full conversation. Each names its field. Nothing is stored then.
 * Locks: the conversations in id order, so that none changes its holder and no agent is deleted.
 * Statements: about six for up to 5,000 messages, and three more per further 5,000. Index: primary keys,
 * `message_appended_otid`, `waiting_message_otid`.
 */
export async function appendMessages(
  trx: Tx,
  projectId: string,
  items: readonly AppendItem[],
): Promise<AppendReport> {
  const entries = toEntries(items, await holdConversations(trx, projectId, items));
  const distinct = withoutOwnRepeats(entries);
  const known = await findKnown(trx, distinct);
  const fresh = distinct.filter((entry) => !known.has(entry));
  const placed = placeInOrder(fresh);
  const appended = placed.filter(({ entry }) => !entry.conversation.is_held);
  const waiting = placed.filter(({ entry }) => entry.conversation.is_held);
  await insertRows(trx, projectId, appended, 'message');
  await insertRows(trx, projectId, waiting, 'waiting_message');
  return {
    appended: appended.length,
    repeated: entries.length - fresh.length,
    waiting: waiting.length,
  };
}

/** A locked conversation. */
interface HeldConversation {
  readonly agent_id: string;
  readonly conversation_id: string;
  /** A run holds it. */
  readonly is_held: boolean;
  /** Number of its last message; 0 without messages. */
  readonly last_seq: number;
  /** Place of its last waiting message; 0 without any. */
  readonly last_place: number;
}

/** Locks the agents' conversations and reads them, by agent. Throws: `not_found`. */
async function holdConversations(
  trx: Tx,
  projectId: string,
  items: readonly AppendItem[],
): Promise<ReadonlyMap<string, HeldConversation>> {
  const ids = uuidArray([...new Set(items.map(({ agent_id }) => agent_id))]);
  const { rows: found } = await sql<{ conversation_id: string }>`
    select conversation_id from agent where id = any((select ${ids}::uuid[])::uuid[]) and project_id = ${projectId}::uuid
  `.execute(trx);
  await lockConversations(
    trx,
    found.map(({ conversation_id }) => conversation_id),
  );
  // A separate statement: it sees runs, messages and deletions that committed during the wait for the locks.
  const { rows } = await sql<HeldConversation>`
    select a.id as agent_id, c.id as conversation_id, c.run_id is not null as is_held,
           coalesce((select m.seq from message m where m.conversation_id = c.id order by m.seq desc limit 1), 0) as last_seq,
           coalesce((select w.place from waiting_message w
                      where w.conversation_id = c.id order by w.place desc limit 1), 0) as last_place
      from (select id, conversation_id from agent
             where id = any((select ${ids}::uuid[])::uuid[]) and project_id = ${projectId}::uuid and deleted_at is null
            ${UNMERGED}) a
     cross join lateral (select id, run_id from conversation where id = a.conversation_id ${UNMERGED}) c
  `.execute(trx);
  const conversations = new Map(rows.map((row) => [row.agent_id, row]));
  refuseUnknown(items.filter(({ agent_id }) => !conversations.has(agent_id)));
  return conversations;
}

function refuseUnknown(unknown: readonly AppendItem[]): void {
  const fields = unknown.map(({ agent_id, path }) => ({
    path: path === '' ? 'agent_id' : `${path}/agent_id`,
    message: `There is no agent agent-${agent_id}.`,
  }));
  const [first] = fields;
  if (first === undefined) return;
  const rest = fields.length === 1 ? '' : ` ${fields.length - 1} more are unknown.`;
  throw new NightshiftError('not_found', `${first.message}${rest} Nothing was stored.`, { fields });
}

/** A message in its stored form. */
interface Entry {
  readonly conversation: HeldConversation;
  readonly path: string;
  readonly message: NewAppendedMessage;
  readonly content: string;
  readonly otid: string | null;
  readonly name: string | null;
}

function toEntries(
  items: readonly AppendItem[],
  conversations: ReadonlyMap<string, HeldConversation>,
): readonly Entry[] {
  return items.flatMap(({ agent_id, path, messages }) =>
    messages.map((message, index) => ({
      conversation: conversations.get(agent_id) as HeldConversation,
      path: `${path}/messages/${index}`,
      message,
      content: toStorable(JSON.stringify(message.content)),
      otid: storableText(message.otid),
      name: storableText(message.name),
    })),
  );
}

type ComparedField = 'role' | 'content' | 'name' | 'said_at';

/** An entry whose `otid` belongs to a message with another value of a field. */
interface Difference {
  readonly entry: Entry;
  readonly field: ComparedField;
}

/** Leaves out repeats within the request. Throws: `conflict`. */
function withoutOwnRepeats(entries: readonly Entry[]): readonly Entry[] {
  const firsts = new Map<string, Entry>();
  const differences: Difference[] = [];
  const distinct = entries.filter((entry) => {
    if (entry.otid === null) return true;
    const key = `${entry.conversation.conversation_id} ${entry.otid}`;
    const first = firsts.get(key);
    if (first === undefined) {
      firsts.set(key, entry);
      return true;
    }
    const field = differingField(first, entry);
    if (field !== null) differences.push({ entry, field });
    return false;
  });
  refuseDifferent(differences);
  return distinct;
}

function differingField(one: Entry, other: Entry): ComparedField | null {
  if (one.message.role !== other.message.role) return 'role';
  if (one.content !== other.content) return 'content';
  if (one.name !== other.name) return 'name';
  const [said, alsoSaid] = [one.message.said_at, other.message.said_at];
  if (said === alsoSaid) return null;
  return said !== null && alsoSaid !== null && Date.parse(said) === Date.parse(alsoSaid) ? null : 'said_at';
}

function refuseDifferent(differences: readonly Difference[]): void {
  const fields = differences.map(({ entry, field }): FieldError => {
    const message = `differs from the ${field} of the message that was appended under the otid ${JSON.stringify(entry.otid)}`;
    return { path: `${entry.path}/${field}`, message };
  });
  const [first] = fields;
  if (first === undefined) return;
  const advice = 'Send another message under a new otid.';
  throw new NightshiftError('conflict', `${first.path} ${first.message}. ${advice} Nothing was stored.`, {
    fields,
  });
}

/** Finds the entries that are stored or wait already. Throws: `conflict`. */
async function findKnown(trx: Tx, entries: readonly Entry[]): Promise<ReadonlySet<Entry>> {
  const known = new Set<Entry>();
  const differences: Difference[] = [];
  const named = entries.filter(({ otid }) => otid !== null);
  for (const rows of rowsPerStatement(named, ({ otid, name }) => `${otid}${name}`.length)) {
    const { rows: found } = await sql<{ index: number; field: ComparedField | null }>`
      select d.index, case when f.role <> d.role then 'role'
                           when encode(sha256(convert_to(f.content::text, 'UTF8')), 'hex') <> d.content_sha256 then 'content'
                           when f.name is distinct from d.name then 'name'
                           when f.said_at is distinct from d.said_at::timestamptz then 'said_at' end as field
        from ${unnestRows(rows, {
          index: ['int', (_row, index) => index],
          conversation_id: ['uuid', ({ conversation }) => conversation.conversation_id],
          otid: ['text', ({ otid }) => otid],
          role: ['word', ({ message }) => message.role],
          content_sha256: ['word', ({ content }) => createHash('sha256').update(content).digest('hex')],
          name: ['text', ({ name }) => name],
          said_at: ['word', ({ message }) => message.said_at],
        })}
       cross join lateral (
         (select role, content, name, said_at from message
           where conversation_id = d.conversation_id and otid = d.otid and run_id is null ${UNMERGED})
         union all
         (select role, content, name, said_at from waiting_message
           where conversation_id = d.conversation_id and otid = d.otid ${UNMERGED})) f
    `.execute(trx);
    for (const { index, field } of found) {
      const entry = rows[index] as Entry;
      known.add(entry);
      if (field !== null) differences.push({ entry, field });
    }
  }
  refuseDifferent(differences);
  return known;
}

/** An entry and its `seq`, or its place among waiting messages. */
interface Placed {
  readonly entry: Entry;
  readonly place: number;
}

/** Numbers entries per conversation, in order. Throws: `conflict` for a full conversation. */
function placeInOrder(entries: readonly Entry[]): readonly Placed[] {
  const counts = new Map<HeldConversation, number>();
  return entries.map((entry) => {
    const { conversation } = entry;
    const count = (counts.get(conversation) ?? 0) + 1;
    counts.set(conversation, count);
    const { is_held, last_seq, last_place, agent_id } = conversation;
    if (last_seq + last_place + count > CONVERSATION_MESSAGES_MAX) {
      const message = `does not fit: the conversation of agent-${agent_id} takes ${CONVERSATION_MESSAGES_MAX.toLocaleString('en')} messages`;
      throw new NightshiftError('conflict', `${entry.path} ${message}. Nothing was stored.`, {
        fields: [{ path: entry.path, message }],
      });
    }
    return { entry, place: (is_held ? last_place : last_seq) + count };
  });
}

async function insertRows(
  trx: Tx,
  projectId: string,
  placed: readonly Placed[],
  table: 'message' | 'waiting_message',
): Promise<void> {
  const place = sql.ref(table === 'message' ? 'seq' : 'place');
  for (const rows of rowsPerStatement(placed, ({ entry }) => entry.content.length)) {
    const contents = textSlices(rows.map(({ entry }) => entry.content));
    await sql`
      insert into ${sql.table(table)} (project_id, conversation_id, ${place}, role, content, otid, name, said_at, created_at)
      select ${projectId}::uuid, d.conversation_id, d.place, d.role,
             convert_from(substr(${contents.bytes}::bytea, d.start, d.length), 'UTF8')::json, d.otid, d.name,
             d.said_at::timestamptz, (select app_now())
        from ${unnestRows(rows, {
          conversation_id: ['uuid', ({ entry }) => entry.conversation.conversation_id],
          place: ['int', (row) => row.place],
          role: ['word', ({ entry }) => entry.message.role],
          start: ['int', (_row, index) => contents.startOf(index)],
          length: ['int', (_row, index) => contents.lengthOf(index)],
          otid: ['text', ({ entry }) => entry.otid],
          name: ['text', ({ entry }) => entry.name],
          said_at: ['word', ({ entry }) => entry.message.said_at],
        })}
    `.execute(trx);
  }
}
