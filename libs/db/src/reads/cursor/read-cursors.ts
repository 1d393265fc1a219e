import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import {
  countMessages,
  readMessages,
  scanUntilFound,
  type Bounds,
  type NewMessage,
  type Range,
  type Scan,
} from './new-messages.ts';
import { ENDED_WELL, FAILED, IN_FORCE, RUN_OF_SPAN, UNSETTLED } from './span-conditions.ts';

/** The reason why a batch under a cursor has no run for an agent. */
export type CursorSkip = 'nothing_new' | 'under_way' | 'in_review' | 'failing';

/** The place of a cursor in an agent's conversation. */
export interface CursorPlace {
  readonly agent_id: string;
  readonly conversation_id: string;
  /** The last message that is not new: handled, passed by a rewind, or before the last reset. 0: none. */
  readonly position: number;
  /** The last message of the conversation; 0 for none. */
  readonly top_seq: number;
  readonly skip: CursorSkip | null;
}

/** A cursor with the new messages of its agent. */
export interface CursorReading extends CursorPlace {
  /** The new texts in order, at least one unless skipped. */
  readonly messages: readonly NewMessage[];
  /** The last message that was read or passed over: the last span of these messages ends here. */
  readonly to_seq: number;
  /** Whether messages after `to_seq` are left for the next reading. */
  readonly is_cut: boolean;
}

/** The cursors of the first agents of a reading. */
export interface CursorReadings {
  /** The agents that were read: all, or the first that fit the bounds. */
  readonly agent_ids: readonly string[];
  /** By agent, without deleted agents. */
  readonly readings: ReadonlyMap<string, CursorReading>;
}

/** A cursor with the number of new messages of its agent. */
export interface CursorCount extends CursorPlace {
  readonly new_messages: number;
  /** Bytes of their text. */
  readonly new_bytes: number;
  /** Whether there may be more. */
  readonly is_cut: boolean;
}

/** Bounds of a reading. It ends where it reaches one, but not before its first message. */
export interface ReadingBounds {
  /** Bytes of text of an agent, and bytes of its contents as stored. Default: 4 MiB. */
  readonly bytes_max?: number;
  /** Bytes of text of all agents together: the first agents that fit, at least one, are read. Default: no bound. */
  readonly bytes_max_together?: number;
  /** Messages of an agent, including messages without text. Default: 5,000. */
  readonly messages_max?: number;
}

const BOUNDS_DEFAULT: Bounds = { bytes_max: 4 * 1024 * 1024, messages_max: 5_000 };

/**
 * Reads the new messages of agents under a cursor, oldest first. Deleted agents are left out.
 * New is every shown user or assistant text after the cursor and the last reset.
 * Under the lock of the agents' conversations (`lockConversations`, in an earlier statement) no message up to `to_seq` can
 * be added later, and the next accept under the cursor sees the spans of this one. Without the lock it only informs.
 * Statements: two for up to 1,000 agents, three with `bytes_max_together`; more for cursors whose last runs failed and for long rows of messages without text.
 * Index: `cursor_span_by_agent`, from the highest span down to the first that counts; primary keys.
 */
export async function readCursors(
  db: Database,
  projectId: string,
  name: string,
  agentIds: readonly string[],
  { bytes_max_together, ...given }: ReadingBounds = {},
): Promise<CursorReadings> {
  const bounds = { ...BOUNDS_DEFAULT, ...given };
  const places = await readPlaces(db, projectId, name, agentIds);
  const taken =
    bytes_max_together === undefined
      ? agentIds
      : firstThatFit(
          agentIds,
          await scanUntilFound(db, rangesOf(places), bounds, countMessages),
          bytes_max_together,
        );
  const isTaken = new Set(taken);
  const read = places.filter((place) => isTaken.has(place.agent_id));
  const scans = await scanUntilFound(db, rangesOf(read), bounds, readMessages);
  const readings = new Map(
    read.map((place) => {
      const { messages, to_seq } = scans.get(place.agent_id) ?? { messages: [], to_seq: place.position };
      const skip = place.skip ?? (messages.length === 0 ? 'nothing_new' : null);
      const is_cut = skip === null && to_seq < place.top_seq;
      return [place.agent_id, { ...place, skip, messages, to_seq, is_cut }];
    }),
  );
  return { agent_ids: taken, readings };
}

/** Returns the first agents, at least one, whose new texts stay within `bytesMax` together. */
function firstThatFit(
  agentIds: readonly string[],
  scans: ReadonlyMap<string, Scan>,
  bytesMax: number,
): readonly string[] {
  let bytes = 0;
  const end = agentIds.findIndex((id, index) => {
    bytes += scans.get(id)?.bytes ?? 0;
    return index > 0 && bytes > bytesMax;
  });
  return end === -1 ? agentIds : agentIds.slice(0, end);
}

/** Counts the new messages of agents under a cursor, like {@link readCursors} but also behind a skip. */
export async function countNewMessages(
  db: Database,
  projectId: string,
  name: string,
  agentIds: readonly string[],
  bounds: ReadingBounds = {},
): Promise<ReadonlyMap<string, CursorCount>> {
  const places = await readPlaces(db, projectId, name, agentIds);
  const ranges = places.map((place) => ({ ...place, after_seq: place.position }));
  const scans = await scanUntilFound(db, ranges, { ...BOUNDS_DEFAULT, ...bounds }, countMessages);
  return new Map(
    places.map((place) => {
      const { count, bytes, to_seq } = scans.get(place.agent_id) ?? {
        count: 0,
        bytes: 0,
        to_seq: place.top_seq,
      };
      const skip = place.skip ?? (count === 0 ? 'nothing_new' : null);
      const is_cut = to_seq < place.top_seq;
      return [place.agent_id, { ...place, skip, new_messages: count, new_bytes: bytes, is_cut }];
    }),
  );
}

function rangesOf(places: readonly CursorPlace[]): readonly Range[] {
  return places
    .filter((place) => place.skip === null)
    .map((place) => ({ ...place, after_seq: place.position }));
}

interface StateRow {
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly position: number;
  readonly top_seq: number;
  readonly is_under_way: boolean;
  readonly is_in_review: boolean;
  /** The conversation's last message when the last run failed, if it was the third in a row; null otherwise. */
  readonly failed_top_seq: number | null;
}

/** Reads the places of cursors, with the skips that do not depend on new messages. */
async function readPlaces(
  db: Database,
  projectId: string,
  name: string,
  agentIds: readonly string[],
): Promise<readonly CursorPlace[]> {
  if (agentIds.length === 0) return [];
  const states = await readStates(db, projectId, name, agentIds);
  const failed = states.flatMap(({ failed_top_seq, position, ...state }) =>
    failed_top_seq === null ? [] : [{ ...state, after_seq: Math.max(failed_top_seq, position) }],
  );
  const later = await scanUntilFound(db, failed, BOUNDS_DEFAULT, countMessages);
  return states.map(({ is_under_way, is_in_review, failed_top_seq, ...state }) => {
    const is_failing = failed_top_seq !== null && !later.has(state.agent_id);
    const skip = is_under_way ? 'under_way' : is_in_review ? 'in_review' : is_failing ? 'failing' : null;
    return { ...state, skip };
  });
}

/** Consecutive failed runs from one place after which a cursor waits for new messages. */
const FAILURES_MAX = 3;

/**
 * A single statement, so that position and skip are of one snapshot. The spans above the last that counts are few: open,
 * held, failed, cancelled, rejected or reverted since. Spans of before a rewind are settled, because a rewind waits for them.
 */
async function readStates(
  db: Database,
  projectId: string,
  name: string,
  agentIds: readonly string[],
): Promise<readonly StateRow[]> {
  const { rows } = await sql<StateRow>`
    select a.id as agent_id, c.id as conversation_id, greatest(h.seq, c.reset_seq) as position, t.top_seq, u.is_under_way,
           u.is_in_review, f.failed_top_seq
      from unnest((select ${uuidArray([...new Set(agentIds)])}::uuid[])) as d(id)
     cross join lateral (
       select id, conversation_id, project_id, deleted_at from agent where id = d.id ${UNMERGED}) a
     cross join lateral (select id, reset_seq from conversation where id = a.conversation_id ${UNMERGED}) c
     cross join lateral (
       select coalesce((select seq from message where conversation_id = c.id order by seq desc limit 1), 0) as top_seq) t
     cross join lateral (
       select coalesce(max(to_seq), 0) as to_seq, coalesce(max(rewinds), 0) as rewinds
         from cursor_rewind where agent_id = a.id and name = ${name}) w
     cross join lateral (
       select greatest(w.to_seq, (
         select s.to_seq from cursor_span s
          where s.agent_id = a.id and s.name = ${name} and s.rewinds = w.rewinds and s.reverted_at is null
            and exists (select from (${RUN_OF_SPAN}) r where ${ENDED_WELL}) and ${IN_FORCE}
          order by s.to_seq desc limit 1)) as seq ${UNMERGED}) h
     cross join lateral (
       select coalesce(bool_or(r.ended_at is null), false) as is_under_way,
              coalesce(bool_or(s.reverted_at is null and ${UNSETTLED}), false) as is_in_review
         from cursor_span s cross join lateral (${RUN_OF_SPAN}) r
        where s.agent_id = a.id and s.name = ${name} and s.rewinds = w.rewinds and s.to_seq > h.seq) u
     cross join lateral (
       select case when count(*) filter (where l.is_failed) = ${FAILURES_MAX} then max(l.top_seq) end as failed_top_seq
         from (
           select s.top_seq, ${FAILED} as is_failed
             from cursor_span s cross join lateral (${RUN_OF_SPAN}) r
            where s.agent_id = a.id and s.name = ${name} and s.rewinds = w.rewinds and s.to_seq > h.seq
              and s.from_seq = greatest(h.seq, c.reset_seq)
            order by s.top_seq desc, s.run_id desc limit ${FAILURES_MAX}) l) f
     where a.project_id = ${projectId} and a.deleted_at is null
  `.execute(db);
  return rows;
}
