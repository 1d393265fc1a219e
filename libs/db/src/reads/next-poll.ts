import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/** Milliseconds until the next provider batch is to be looked at; null where none waits. Index: `provider_batch_due`. */
export async function readNextPollMs(db: Database): Promise<number | null> {
  const { rows } = await sql<{ next_in_ms: number | null }>`
    with n as (select app_now() as now)
    select (extract(epoch from min(p.next_due_at) - n.now) * 1000)::float8 as next_in_ms
      from n join provider_batch p on p.state in ('submitted', 'cancelling') and p.next_due_at > n.now
     group by n.now
  `.execute(db);
  return rows[0]?.next_in_ms ?? null;
}
