import { sql } from 'kysely';
import type { Lease } from '../../claims/lease.ts';
import { newId, type Tx } from '../../connect.ts';

/**
 * Moves runs out of a chunk into a new one, which is due after `delayMs`. The chunk is deleted with its last run.
 * The caller holds the lease of the chunk. Locks: the chunk.
 */
export async function commitRunsPutOff(
  trx: Tx,
  { id }: Lease,
  runIds: readonly string[],
  delayMs: number,
): Promise<void> {
  await sql`
    with later as (
      insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
      select ${newId()}::uuid, project_id, kind, ${runIds}::uuid[], app_now() + ${delayMs}::float8 * interval '1 millisecond'
        from run_chunk where id = ${id}::uuid),
    over as (
      delete from run_chunk where id = ${id}::uuid and run_ids <@ ${runIds}::uuid[])
    update run_chunk
       set run_ids = array(select u.id from unnest(run_ids) with ordinality as u(id, place)
                            where u.id <> all(${runIds}::uuid[]) order by u.place)
     where id = ${id}::uuid and not run_ids <@ ${runIds}::uuid[]
  `.execute(trx);
}
