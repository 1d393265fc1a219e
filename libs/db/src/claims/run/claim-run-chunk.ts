import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { IS_DUE } from '../../reads/due-conditions.ts';
import { LAST_HOLDER, leasedTo, type Claimant } from '../lease.ts';

/** A claimed chunk of runs with calls to carry out. */
export interface ClaimedRunChunk {
  readonly id: string;
  readonly run_ids: readonly string[];
  readonly lease_epoch: number;
  readonly failures: number;
  /** Consecutive expired leases since the chunk was made or last split. */
  readonly takeovers: number;
  readonly taken_over_from: string | null;
  /** Time since it was made. Unit: milliseconds. */
  readonly age_ms: number;
}

/**
 * Claims the chunk of `acting` runs that has been due longest; null without one.
 * The caller carries out the calls and ends with `commitToolResults`, which deletes the chunk.
 * Locks: the row, with skip locked. Index: `run_chunk_due`.
 */
export async function claimToolsChunk(db: Database, claimant: Claimant): Promise<ClaimedRunChunk | null> {
  const { rows } = await sql<ClaimedRunChunk>`
    with due ${AS_FIRST} (
      select id, ${LAST_HOLDER}
        from run_chunk
       where kind = 'tools' and ${IS_DUE}
       order by next_due_at, id
       limit 1
         for update skip locked)
    update run_chunk c
       set ${leasedTo(claimant, true)}
      from due
     where c.id = due.id
    returning c.id, c.run_ids, c.lease_epoch, c.failures, c.takeovers, due.holder as taken_over_from,
              extract(epoch from app_now() - c.created_at)::float8 * 1000 as age_ms
  `.execute(db);
  return rows[0] ?? null;
}
