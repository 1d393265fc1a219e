import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { DeletedItemTable } from '../../tables.ts';

/**
 * Deletes an item and keeps its place in its list for cursors. Returns whether it existed.
 * Locks: its row. Index: primary key.
 */
export async function deleteListedItem(
  trx: Tx,
  kind: DeletedItemTable['kind'],
  projectId: string,
  id: string,
): Promise<boolean> {
  // A single statement: a Date in between would lose the microseconds.
  const { numAffectedRows = 0n } = await sql`
    with gone as (
      delete from ${sql.table(kind)} where id = ${id}::uuid and project_id = ${projectId}::uuid
      returning id, project_id, created_at)
    insert into deleted_item (id, project_id, kind, created_at)
    select id, project_id, ${kind}::text, created_at from gone
  `.execute(trx);
  return numAffectedRows > 0n;
}
