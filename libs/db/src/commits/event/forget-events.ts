import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { isOldEvent } from '../../reads/due-conditions.ts';

/**
 * Forgets events older than `days` with their callbacks, and events of another server's transactions, which a restored backup
 * brought along. Index: `event_by_age`, primary key.
 */
export async function forgetEvents(db: Database, days: number): Promise<void> {
  await sql`delete from event where ${isOldEvent(days)}`.execute(db);
}
