import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { ClaimedCallbackEvent } from '../../claims/event/claim-callback-event.ts';
import type { CallbackDelivery } from '../batch/callback.ts';

/** Books one delivery of an event: it is due for the next delivery, or never again. Does nothing after another claim. */
export async function commitCallbackEvent(
  trx: Tx,
  { xid, id, lease_epoch }: Pick<ClaimedCallbackEvent, 'xid' | 'id' | 'lease_epoch'>,
  { delivered, status_code, error, delay_ms }: CallbackDelivery,
): Promise<void> {
  await sql`
    update callback_event
       set attempts = attempts + 1, status_code = ${status_code}::int, error = ${error}::text,
           sent_at = case when ${delivered} then app_now() else sent_at end,
           next_due_at = app_now() + ${delay_ms}::float8 * interval '1 millisecond'
     where xid = ${xid}::xid8 and id = ${id}::bigint and lease_epoch = ${lease_epoch}
  `.execute(trx);
}
