import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';

/**
 * Serializes grants of calls of tools until the transaction ends. Locks: the tools in name order, as their registration
 * does. Index: primary key.
 */
export async function lockTools(trx: Tx, toolIds: readonly string[]): Promise<void> {
  await sql`
    select from tool where id = ${anyUuid(toolIds)} order by name collate "C" for no key update
  `.execute(trx);
}
