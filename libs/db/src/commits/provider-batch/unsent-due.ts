import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';

/**
 * Makes due the unsent provider batches that hold steps of a batch; the worker that claims them takes the steps back.
 * Skips locked rows: their holder waits for this batch or will look at it next.
 * Index: `provider_batch_due`, `step_by_provider_batch`.
 */
export async function commitUnsentDue(trx: Tx, batchId: string): Promise<void> {
  await sql`
    with waiting ${AS_FIRST} (
      select p.id from provider_batch p
       where p.state = 'building' and p.next_due_at > app_now()
         and exists (select 1 from step s join run r on r.id = s.run_id
                      where s.provider_batch_id = p.id and r.batch_id = ${batchId}::uuid)
       order by p.id
         for no key update of p skip locked)
    update provider_batch p set next_due_at = app_now() from waiting w where p.id = w.id
  `.execute(trx);
}
