import type { BatchState, EventType, JsonObject } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import type { EventPlace } from '../../reads/event/events.ts';

/** An event that the callback of a batch reports. */
export interface ClaimedCallbackEvent extends EventPlace {
  readonly lease_epoch: number;
  /** Deliveries so far. */
  readonly attempts: number;
  readonly type: EventType;
  readonly data: JsonObject;
  readonly created_at: Date;
  readonly batch_id: string;
  /** Null: the batch was deleted. */
  readonly callback_url: string | null;
  readonly state: BatchState | null;
  readonly metadata: JsonObject | null;
}

/**
 * Claims the longest due event of a callback, and puts it off by `leaseMs`: it is due again if the worker is killed.
 * The caller ends with `commitCallbackEvent`. Locks: the row, with skip locked. Index: `callback_event_due`.
 */
export async function claimCallbackEvent(
  db: Database,
  leaseMs: number,
): Promise<ClaimedCallbackEvent | null> {
  const { rows } = await sql<ClaimedCallbackEvent>`
    with due ${AS_FIRST} (
      select xid, id from callback_event where next_due_at <= app_now()
       order by next_due_at, id limit 1
         for update skip locked),
    claimed as (
      update callback_event c
         set lease_epoch = c.lease_epoch + 1, next_due_at = app_now() + ${leaseMs}::float8 * interval '1 millisecond'
        from due where c.xid = due.xid and c.id = due.id
      returning c.xid, c.id, c.lease_epoch, c.attempts)
    select c.xid::text as xid, c.id, c.lease_epoch, c.attempts, e.type, e.data, e.created_at, e.batch_id, b.callback_url, b.state,
           b.metadata
      from claimed c join event e on e.xid = c.xid and e.id = c.id left join batch b on b.id = e.batch_id
  `.execute(db);
  return rows[0] ?? null;
}
