import type { BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { IS_DUE } from '../../reads/due-conditions.ts';
import { LAST_HOLDER, leasedTo, type Claimant } from '../lease.ts';

/** A claimed batch. */
export interface ClaimedBatch {
  readonly id: string;
  readonly state: BatchState;
  readonly total: number;
  readonly lease_epoch: number;
  readonly taken_over_from: string | null;
  /** Time since the cancel request. Unit: ms. Null: no cancel was requested. */
  readonly stopping_ms: number | null;
}

/**
 * Claims up to `limit` due batches in one of `states`, longest due first.
 * The caller ends with `commitBatchFinish`, a cancel step, or a release.
 * Locks: the rows, with skip locked. Index: `batch_due`.
 */
export async function claimDueBatches(
  db: Database,
  states: readonly BatchState[],
  limit: number,
  claimant: Claimant,
): Promise<readonly ClaimedBatch[]> {
  const { rows } = await sql<ClaimedBatch>`
    with due ${AS_FIRST} (
      select id, ${LAST_HOLDER}
        from batch
       where state = any(${states}::text[]) and ${IS_DUE}
       order by next_due_at, id
       limit ${limit}
         for update skip locked)
    update batch b
       set ${leasedTo(claimant)}
      from due
     where b.id = due.id
    returning b.id, b.state, b.total, b.lease_epoch, due.holder as taken_over_from,
              (extract(epoch from app_now() - b.cancel_requested_at) * 1000)::float8 as stopping_ms
  `.execute(db);
  return rows;
}
