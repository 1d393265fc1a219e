import type { EventType, JsonObject } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A place in the order of events: the transaction and the number of an event. */
export interface EventPlace {
  /** An xid8 as text. */
  readonly xid: string;
  readonly id: number;
}

/** A rare change. */
export interface EventRow extends EventPlace {
  readonly type: EventType;
  readonly batch_id: string | null;
  readonly schedule_id: string | null;
  readonly data: JsonObject;
  readonly created_at: Date;
}

/**
 * The oldest transaction that may still commit. Events of it and of later transactions are not read yet, since one of an earlier
 * place might commit after them.
 */
const SETTLED = sql`event.xid < pg_snapshot_xmin(pg_current_snapshot())`;

/**
 * Reads events after a place, in their order; null: from the first. A reader that keeps the last place misses none, whatever
 * the order of commits.
 * Index: primary key.
 */
export async function readEvents(
  db: Database,
  projectId: string,
  after: EventPlace | null,
  limit: number,
): Promise<readonly EventRow[]> {
  const { xid, id } = after ?? { xid: '0', id: 0 };
  const { rows } = await sql<EventRow>`
    select xid::text as xid, id, type, batch_id, schedule_id, data, created_at from event
     where (event.xid, event.id) > (${xid}::xid8, ${id}::bigint) and ${SETTLED} and project_id = ${projectId}::uuid
     order by event.xid, event.id limit ${limit}
  `.execute(db);
  return rows;
}

/** Reads the place after which the next events come. Index: primary key. */
export async function readLastEventPlace(db: Database): Promise<EventPlace> {
  const { rows } = await sql<EventPlace>`
    select xid::text as xid, id from event where ${SETTLED} order by event.xid desc, event.id desc limit 1
  `.execute(db);
  return rows[0] ?? { xid: '0', id: 0 };
}

/**
 * Tells whether a place may be of an event of this database: after a restore on another server its transactions begin anew, and
 * a place from before the restore would hide all later events.
 */
export async function isEventPlaceKnown(db: Database, { xid }: EventPlace): Promise<boolean> {
  const { rows } = await sql<{ is_known: boolean }>`
    select ${xid}::xid8 < pg_snapshot_xmax(pg_current_snapshot()) as is_known
  `.execute(db);
  return rows[0]?.is_known ?? false;
}
