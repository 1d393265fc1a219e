import { sql } from 'kysely';
import { fenced, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';

/** What one delivery came to. `delay_ms` null: there will be no further one. */
export interface CallbackDelivery {
  readonly delivered: boolean;
  readonly status_code: number | null;
  readonly error: string | null;
  readonly delay_ms: number | null;
}

/** Books one delivery and gives the batch back, due for the next one or for nobody. */
export async function commitCallback(trx: Tx, lease: Lease, delivery: CallbackDelivery): Promise<void> {
  const { rows } = await sql`
    update batch
       set callback_attempts = callback_attempts + 1,
           callback_sent_at = case when ${delivery.delivered} then app_now() else callback_sent_at end,
           callback_status_code = ${delivery.status_code}::int,
           callback_error = ${delivery.error},
           next_due_at = app_now() + ${delivery.delay_ms}::float8 * interval '1 millisecond',
           lease_until = '-infinity', lease_owner = null
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and completed_at is not null
    returning 1
  `.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}
