import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';

/**
 * Marks due ready runs as gathered after an ingest or tool calls, unless a provider batch is being ingested or about to be:
 * its end marks them. After tool calls, other open chunks of calls prevent the mark too.
 * Called after the commit of that end, not in its transaction: two ends at the same time would each see the other as open.
 * A crash in between costs the gather window.
 * Locks: the chunks, with skip locked. Index: `run_chunk_due`, `provider_batch_due`.
 */
export async function markGathered(db: Database, after: 'ingest' | 'tool calls'): Promise<void> {
  const isOpen = sql`(next_due_at <= app_now() or lease_until > app_now())`;
  await sql`
    with waiting ${AS_FIRST} (
      select id from run_chunk
       where kind = 'ready' and next_due_at <= app_now() and not gathered
         and not exists (select from provider_batch where state = 'ended' and ${isOpen})
         and (${after === 'ingest'} or not exists (select from run_chunk where kind = 'tools' and ${isOpen}))
       order by next_due_at, id
         for update skip locked)
    update run_chunk c set gathered = true from waiting where c.id = waiting.id
  `.execute(db);
}
