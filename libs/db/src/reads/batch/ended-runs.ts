import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Slots over which the counts of a batch are spread. */
export const TALLY_SLOTS = 8;

/** The runs that one commit ended. */
export interface EndedRunsRow {
  readonly slot: number;
  readonly version: number;
  readonly run_ids: readonly string[];
}

/** Stored bytes of ids after which a page ends: some two thousand runs. */
const PAGE_BYTES = 32 * 1024;
const PAGE_ROWS = 200;

/**
 * Reads the next commits that ended runs of a batch, behind the version reached in each slot; none at the present end.
 * The slots are merged by time, always the slot whose next commit is the oldest, so the order depends on the stored rows and the
 * position alone. Times of one slot may run backwards with the clock; its versions never do.
 * Index: primary key of `ended_runs`, at most {@link PAGE_ROWS} rows of each slot.
 */
export async function readEndedRuns(
  db: Database,
  batchId: string,
  versions: readonly number[],
): Promise<readonly EndedRunsRow[]> {
  const { rows } = await sql<EndedRunsRow>`
    select slot, version, run_ids
      from (select *, sum(pg_column_size(run_ids)) over (order by time, slot, version
                                                         rows between unbounded preceding and 1 preceding) as bytes_before
              from (select e.*, max(e.ended_at) over (partition by e.slot order by e.version) as time
                      from unnest(${[...versions]}::bigint[]) with ordinality as p(version, place)
                     cross join lateral (
                       select slot, version, run_ids, ended_at from ended_runs
                        where batch_id = ${batchId}::uuid and slot = p.place - 1 and version > p.version
                        order by version limit ${PAGE_ROWS}) e) merged
             order by time, slot, version limit ${PAGE_ROWS}) page
     where coalesce(bytes_before, 0) < ${PAGE_BYTES}
     order by time, slot, version
  `.execute(db);
  return rows;
}
