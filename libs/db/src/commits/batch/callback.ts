import { sql } from 'kysely';
import { fenced, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';

/** The result of one delivery. `delay_ms` null: no further delivery. */
export interface CallbackDelivery {
  readonly delivered: boolean;
  readonly status_code: number | null;
  readonly error: string | null;
  readonly delay_ms: number | null;
}

/** Books one delivery and releases the batch, due for the next delivery or never. */
export async function commitCallback(trx: Tx, lease: Lease, delivery: CallbackDelivery): Promise<void> {
  const { delivered, status_code, error, delay_ms } = delivery;
  const { numUpdatedRows } = await trx
    .updateTable('batch')
    .set(({ eb }) => ({
      callback_attempts: eb('callback_attempts', '+', 1),
      ...(delivered ? { callback_sent_at: NOW } : {}),
      callback_status_code: status_code,
      callback_error: error,
      next_due_at:
        delay_ms === null ? null : sql<Date>`app_now() + ${delay_ms}::float8 * interval '1 millisecond'`,
      lease_until: '-infinity',
      lease_owner: null,
    }))
    .where('id', '=', lease.id)
    .where('lease_epoch', '=', lease.epoch)
    .where('completed_at', 'is not', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw fenced(lease);
}
