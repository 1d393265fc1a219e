import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

export type DueKind =
  'batch' | 'ready_runs' | 'tool_calls' | 'provider_batch' | 'callback' | 'schedule' | 'forgotten_batch';

/** The oldest row of a kind that is due and has no holder. */
export interface OldestDue {
  readonly kind: DueKind;
  /** Unit: s. */
  readonly waited_seconds: number;
}

/**
 * Reads the oldest due row of each kind, the oldest first; kinds without any are left out.
 * Index: the indexes of due rows. Rows under a lease are skipped, of which there are few.
 */
export async function readOldestDue(db: Database): Promise<readonly OldestDue[]> {
  const { rows } = await sql<OldestDue>`
    select d.kind, extract(epoch from app_now() - d.due)::float8 as waited_seconds
      from (select 'batch' as kind, min(next_due_at) as due from batch where next_due_at is not null and lease_until < app_now()
            union all select 'ready_runs', min(next_due_at) from run_chunk where kind = 'ready' and lease_until < app_now()
            union all select 'tool_calls', min(next_due_at) from run_chunk where kind = 'tools' and lease_until < app_now()
            union all select 'provider_batch', min(next_due_at) from provider_batch
                       where next_due_at is not null and lease_until < app_now()
            union all select 'callback', min(next_due_at) from callback_event where next_due_at is not null
            union all select 'schedule', min(next_due_at) from schedule where next_due_at is not null
            union all select 'forgotten_batch', min(next_due_at) from forgotten_batch
                       where next_due_at is not null and lease_until < app_now()) d
     where d.due <= app_now() order by d.due
  `.execute(db);
  return rows;
}
