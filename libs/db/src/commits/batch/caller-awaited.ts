import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';

/**
 * Stores an event for each batch whose first run begins to wait for its caller. The caller of this function has counted the
 * changes.
 * Locks: an advisory lock a batch, in the order of their keys. Commits over several slots do not see each other's counts; the
 * lock lets each see those of the commits before it.
 */
export async function noteCallerAwaited(
  trx: Tx,
  changes: readonly { readonly batch_id: string; readonly requires_action: number }[],
): Promise<void> {
  if (changes.length === 0) return;
  const payload = JSON.stringify(changes);
  await sql`
    with k ${AS_FIRST} (
      select hashtextextended(batch_id::text, 0) as key
        from json_to_recordset(${payload}::json) as d(batch_id uuid) order by 1)
    select count(pg_advisory_xact_lock(key)) from k
  `.execute(trx);
  // A separate statement, whose snapshot is from after the locks.
  await sql`
    insert into event (project_id, type, batch_id, data)
    select t.project_id, 'batch.requires_action', d.batch_id, json_build_object('runs', t.waiting)
      from json_to_recordset(${payload}::json) as d(batch_id uuid, requires_action int)
     cross join lateral (
       select max(project_id::text)::uuid as project_id, sum(requires_action)::int as waiting
         from batch_tally where batch_id = d.batch_id) t
     where t.waiting > 0 and t.waiting <= d.requires_action
     order by d.batch_id
  `.execute(trx);
}
