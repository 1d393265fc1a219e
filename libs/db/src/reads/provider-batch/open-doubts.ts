import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A submission of which it is not certain which batch of the provider is its own. */
export interface OpenDoubt {
  readonly provider_batch_id: string;
  readonly request_count: number;
  /** When it was sent: in the provider's time where that was measured, else in the database's. */
  readonly sent_at: Date;
  /** `sending`: on its way, or its sender is gone. `adopted`: taken from a list, and no line has proven it yet. */
  readonly stage: 'sending' | 'unknown' | 'adopted';
}

/**
 * Every submission that is in doubt now; what was adopted is proven once a step of it has left `sealed`. As many rows as there
 * are live provider batches; served by provider_batch_due, and by step_by_provider_batch for what was adopted.
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
