import { sql } from 'kysely';
import { fenced, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { readUnsendableSteps } from '../../reads/provider-batch/unsendable-steps.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Locks the batches that have steps in a provider batch for share, in id order: a pause or cancel waits for the caller's
 * commit, or the caller has waited for theirs. Before the provider batch, which must be free to have its lease renewed
 * meanwhile; whoever has lost that lease finds it out with the next lock. Each run is looked up by itself (ADR 0024).
 */
export async function shareBatchesOf(trx: Tx, providerBatchId: string): Promise<void> {
  await sql`
    with theirs ${AS_FIRST} (
      select distinct r.batch_id
        from step s
        cross join lateral (select batch_id from run where id = s.run_id ${UNMERGED}) r
       where s.provider_batch_id = ${providerBatchId}::uuid)
    select 1 from batch where id in (select batch_id from theirs) order by id for share
  `.execute(trx);
}

/**
 * Locks for share, in id order, the batches whose steps are about to be sent, then their provider batch. True when all of them
 * may be sent, and still may when the caller commits: a pause or cancel waits for that. Throws `fenced`.
 */
export async function lockSendable(trx: Tx, lease: Lease, batchIds: readonly string[]): Promise<boolean> {
  await sql`select 1 from batch where id = any(${uuidArray(batchIds)}::uuid[]) order by id for share`.execute(
    trx,
  );
  const held = await sql`
    select 1 from provider_batch
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'building' for no key update
  `.execute(trx);
  if (held.rows.length === 0) throw fenced(lease);
  // A statement of its own: it sees what the locks were waited for.
  return !(await readUnsendableSteps(trx, lease.id));
}
