import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** The number of runs that wait to be sent, and the wait of the oldest. */
export interface ReadyBacklog {
  readonly runs: number;
  /** Time since the oldest chunk became due; 0 without one. Unit: ms. */
  readonly oldest_ms: number;
  /** A due chunk waits for no more runs. */
  readonly gathered: boolean;
  /** Time until the next chunk becomes due; null when none waits. Unit: ms. */
  readonly next_in_ms: number | null;
}

/** Reads the backlog of ready runs, one row per chunk. Index: `run_chunk_due`. */
export async function readReadyBacklog(db: Database): Promise<ReadyBacklog> {
  const { rows } = await sql<ReadyBacklog>`
    with n as (select app_now() as now)
    select coalesce(sum(cardinality(run_ids)) filter (where next_due_at <= n.now), 0)::int as runs,
           coalesce(extract(epoch from n.now - min(next_due_at) filter (where next_due_at <= n.now)) * 1000, 0)::float8 as oldest_ms,
           coalesce(bool_or(gathered) filter (where next_due_at <= n.now), false) as gathered,
           (extract(epoch from min(next_due_at) filter (where next_due_at > n.now) - n.now) * 1000)::float8 as next_in_ms
      from n left join run_chunk on kind = 'ready'
     group by n.now
  `.execute(db);
  return rows[0] ?? { runs: 0, oldest_ms: 0, gathered: false, next_in_ms: null };
}
