import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { WITHOUT_UNSENT_PROMPT } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Takes steps out of a provider batch in `building`: deletes their rows and makes their runs ready, in no chunk yet. A
 * batch without steps is deleted too. The caller holds the runs and the provider batch.
 */
export async function takeOutSteps(
  trx: Tx,
  providerBatchId: string,
  runIds: readonly string[],
): Promise<void> {
  await sql`
    with gone as (
      delete from step s
       where s.provider_batch_id = ${providerBatchId}::uuid and s.state = 'sealed'
         and coalesce(s.run_id in (select unnest(${uuidArray(runIds)}::uuid[])), false)
      returning s.run_id)
    update run r set state = 'ready', ${WITHOUT_UNSENT_PROMPT} from gone where r.id = gone.run_id and r.state = 'in_flight'
  `.execute(trx);
  const count = await compactOrdinals(trx, providerBatchId);
  await (
    count === 0
      ? sql`delete from provider_batch where id = ${providerBatchId}::uuid`
      : sql`update provider_batch set request_count = ${count} where id = ${providerBatchId}::uuid`
  ).execute(trx);
}

/** Makes the ordinals of a provider batch dense again, because requests are read by ranges. Returns the number of steps. */
export async function compactOrdinals(trx: Tx, providerBatchId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with kept as (
      select run_id, number, attempt, (row_number() over (order by ordinal) - 1)::int as place
        from step where provider_batch_id = ${providerBatchId}::uuid),
    moved as (
      update step s set ordinal = -1 - k.place from kept k
       where s.run_id = k.run_id and s.number = k.number and s.attempt = k.attempt returning 1)
    select count(*)::int as count from moved
  `.execute(trx);
  // Negative in between, because ordinals are unique at every moment.
  await sql`update step set ordinal = -1 - ordinal where provider_batch_id = ${providerBatchId}::uuid and ordinal < 0`.execute(
    trx,
  );
  return rows[0]?.count ?? 0;
}
