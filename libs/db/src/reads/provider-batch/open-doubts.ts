import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A submission whose upstream batch is uncertain. */
export interface OpenDoubt {
  readonly provider_batch_id: string;
  readonly request_count: number;
  /** Time of the send, by the provider's clock if measured, else by the database's. */
  readonly sent_at: Date;
  /** `sending`: in flight, or its sender has crashed. `adopted`: found in a list and not proven by a line yet. */
  readonly stage: 'sending' | 'unknown' | 'adopted';
}

/**
 * Reads every submission in doubt; an adopted batch is proven once one of its steps has left `sealed`. At most one row per
 * live provider batch.
 * Index: `provider_batch_due`, and `step_by_provider_batch` for adopted batches.
 */
export async function readOpenDoubts(db: Database): Promise<readonly OpenDoubt[]> {
  const { rows } = await sql<OpenDoubt>`
    select p.id as provider_batch_id, p.request_count, coalesce(p.provider_sent_at, p.submit_started_at) as sent_at,
           case p.state when 'submitting' then 'sending' when 'unknown' then 'unknown' else 'adopted' end as stage
      from provider_batch p
     where p.next_due_at is not null
       and (p.state in ('submitting', 'unknown')
            or p.state in ('submitted', 'cancelling', 'ended')
               and exists (select 1 from doubted_submission d where d.nonce = p.nonce and d.outcome = 'adopted')
               and not exists (select 1 from step s where s.provider_batch_id = p.id and s.state <> 'sealed'))
     order by p.submit_started_at, p.id
  `.execute(db);
  return rows;
}
