import type { BatchState, HoldRule, StopWhen } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Database, Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { bookUsage } from './book-usage.ts';
import { IS_STOPPED, OPEN_RUNS, PILOT_IS_OVER } from '../../reads/due-conditions.ts';

/** The state of a batch's runs, read under the lock of the batch row. */
export interface FinishFacts {
  readonly state: BatchState;
  readonly total: number;
  readonly open_runs: number;
  readonly completed_runs: number;
  /** Failed and expired runs. */
  readonly failed_runs: number;
  readonly project_id: string;
  readonly stop_when: StopWhen | null;
  /** Says which agents stay held when the end accepts the others; null: the end accepts nothing. */
  readonly hold_if: HoldRule | null;
  /** Whether the runs of its pilot have ended, and nothing is decided yet. */
  readonly pilot_is_over: boolean;
}

/** Locks a batch under its lease, then counts its open and completed runs. Throws: `fenced`. */
export async function lockForFinish(trx: Tx, lease: Lease): Promise<FinishFacts> {
  const locked = await sql`
    select 1 from batch where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} for update
  `.execute(trx);
  // A separate statement, since a statement that waits for the lock has a snapshot from before the wait.
  const { rows } = await sql<FinishFacts>`
    select b.state, b.total, b.hold_if, ${OPEN_RUNS} as open_runs, ${PILOT_IS_OVER} as pilot_is_over,
           b.project_id, b.stop_when, t.completed as completed_runs, t.failed as failed_runs
      from batch b
     cross join lateral (
       select coalesce(sum(completed), 0)::int as completed, coalesce(sum(failed + expired), 0)::int as failed
         from batch_tally where batch_id = b.id) t
     where b.id = ${lease.id}::uuid
  `.execute(trx);
  const row = rows[0];
  if (locked.rows.length === 0 || row === undefined) throw fenced(lease);
  return row;
}

/**
 * Ends a batch, or leaves it open until a commit makes it due or `lookAgainMs` has passed, and releases the lease. A cancelled
 * batch keeps the reason of its cancel. The end books the rest of the batch's use and makes its schedule due.
 * Throws: `fenced`. Locks: the batch, rows of `usage_day`, then its schedule.
 */
export async function commitBatchFinish(
  trx: Tx,
  lease: Lease,
  state: BatchState | null,
  lookAgainMs: number | null,
): Promise<void> {
  const { rows } = await sql<{ schedule_id: string | null }>`
    update batch
       set state = coalesce(${state}, state), updated_at = app_now(),
           state_reason = case when ${state}::text is null or ${state}::text = 'cancelled' then state_reason end,
           pilot_state = case when ${state}::text is not null and pilot_state = 'waiting' then 'stopped' else pilot_state end,
           completed_at = case when ${state}::text is null then completed_at else app_now() end,
           expires_at = case when ${state}::text is not null then app_now() + expires_in_days * interval '1 day' end,
           estimate_error = case when ${state}::text = 'completed' then (
             select (batch.expected_nanousd - sum(t.cost_nanousd)) / nullif(sum(t.cost_nanousd), 0)::float8
               from batch_tally t where t.batch_id = batch.id having sum(t.unpriced_steps) = 0) end,
           next_due_at = case when ${state}::text is null
                              then app_now() + ${lookAgainMs}::float8 * interval '1 millisecond'
                              when callback_url is not null then app_now() end,
           ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch}
    returning schedule_id
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw fenced(lease);
  if (state === null) return;
  await bookUsage(trx, lease.id, null);
  if (batch.schedule_id === null) return;
  await trx
    .updateTable('schedule')
    .set({ next_due_at: sql<Date>`least(next_due_at, app_now())` })
    .where('id', '=', batch.schedule_id)
    .execute();
}

/**
 * Makes batches due whose last run, or last run of the pilot, has ended, or that have too many failures, and returns their ids.
 * Called after the commit that ended runs: of two commits that end the last two runs, the later sees both.
 * Locks: the batches in id order.
 */
export async function markFinishedBatches(
  db: Database,
  batchIds: readonly string[],
): Promise<readonly string[]> {
  if (batchIds.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    with idle ${AS_FIRST} (
      select b.id from batch b
       where b.id = any(${batchIds}::uuid[]) and b.state in ('running', 'paused', 'cancelling')
         and (${OPEN_RUNS} <= 0 or ${PILOT_IS_OVER} or ${IS_STOPPED})
       order by b.id
         for no key update)
    update batch b set next_due_at = least(coalesce(b.next_due_at, 'infinity'), app_now())
      from idle where b.id = idle.id
    returning b.id
  `.execute(db);
  return rows.map((row) => row.id);
}
