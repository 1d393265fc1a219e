import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { PLACE } from '../../fragments.ts';
import { oldEvents } from '../../reads/due-conditions.ts';

/** Events of each kind that one call forgets; the next look finds the rest. */
const EVENTS_MAX = 2_000;

/**
 * Forgets events older than `days` with their callbacks, and events of another server's transactions, which a restored backup
 * brought along. Index: `event_by_age`, primary key.
 */
export async function forgetEvents(db: Database, days: number): Promise<void> {
  await sql`delete from event where ${PLACE} = any(array(${oldEvents(days, EVENTS_MAX)}))`.execute(db);
}
