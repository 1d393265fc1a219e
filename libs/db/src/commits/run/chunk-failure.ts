import { sql } from 'kysely';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import { newId, type Tx } from '../../connect.ts';

/** Delay before a failed chunk is tried again, doubled for each further failure. Unit: ms. */
const AGAIN_MS = 2_000;

/**
 * Notes that a chunk failed because of its rows, releases it with a delay, and returns the number of its failures. A chunk
 * of several runs is split in two, so that the faulty run is alone after a few rounds.
 */
export async function commitChunkFailed(trx: Tx, lease: Lease): Promise<number> {
  const { rows } = await sql<{ failures: number }>`
    with whole as (
      select id, project_id, kind, run_ids, cardinality(run_ids) as size, least(failures + 1, 1000) as failures from run_chunk
       where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} for update),
    later as (
      insert into run_chunk (id, project_id, kind, run_ids, failures, next_due_at)
      select ${newId()}::uuid, project_id, kind, run_ids[size / 2 + 1 :], 0, app_now() from whole where size > 1)
    update run_chunk c
       set run_ids = case when w.size > 1 then w.run_ids[: w.size / 2] else w.run_ids end,
           failures = case when w.size > 1 then 0 else w.failures end,
           next_due_at = case when w.size > 1 then app_now()
                              else app_now() + ${AGAIN_MS} * least(power(2, w.failures - 1), 64) * interval '1 millisecond' end,
           takeovers = 0, ${GIVE_LEASE_BACK}
      from whole w where c.id = w.id
    returning w.failures
  `.execute(trx);
  const [row] = rows;
  if (row === undefined) throw fenced(lease);
  return row.failures;
}
