import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Notes runs that have just ended without completing, with the fingerprint of their message: the message without ids and
 * numbers, so that alike failures are one group. Writes nothing for no runs.
 * Locks: none; the caller has written the runs. Index: primary key of `run`.
 */
export async function noteRunFailures(trx: Tx, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await sql`
    insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
    select r.batch_id, r.id, r.project_id, r.ended_at, r.state, r.stop_reason, m.message,
           failure_group(r.stop_reason, m.message)
      from unnest((select ${uuidArray(runIds)}::uuid[])) as u(id)
     cross join lateral (
       select batch_id, id, project_id, ended_at, state, stop_reason, error from run where id = u.id offset 0) r
     cross join lateral (select left(r.error ->> 'message', 2000) as message) m
  `.execute(trx);
}
