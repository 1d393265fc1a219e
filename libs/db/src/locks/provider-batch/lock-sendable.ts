import { sql } from 'kysely';
import { fenced, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { readUnsendableSteps } from '../../reads/provider-batch/unsendable-steps.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Locks for share, in id order, the batches with steps in a provider batch, so that a pause or cancel and the caller wait
 * for each other.
 * Taken before the provider batch, whose lease must be renewable during the wait; the next lock detects a lost lease. Runs
 * are looked up individually (ADR 0024).
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
 * Locks for share, in id order, the batches whose steps will be sent, then their provider batch. True when all may be sent,
 * which holds until the caller commits.
 * Throws: `fenced`.
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
  // A separate statement: it sees commits from during the wait for the locks.
  return !(await readUnsendableSteps(trx, lease.id));
}
