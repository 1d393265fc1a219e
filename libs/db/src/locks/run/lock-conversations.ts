import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Locks conversations `for no key update`, in id order whatever the order given, until the transaction ends.
 * Whoever decides which run holds a conversation (an accept, the commit that ends a run) must hold this lock, and gives it to a
 * run that names it (`run.conversation_id`) or to none: no index refuses a second conversation of a run (ADR 0025).
 * Read what depends on it in a later statement: this one's snapshot is from before the wait. Index: primary key.
 */
export async function lockConversations(trx: Tx, conversationIds: readonly string[]): Promise<void> {
  if (conversationIds.length === 0) return;
  await sql`
    select count(*) from (
      select from conversation where id = any(${uuidArray(conversationIds)}::uuid[]) order by id for no key update
    ) locked
  `.execute(trx);
}
