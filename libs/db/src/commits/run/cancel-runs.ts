import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';
import { GROUP_OF_OPEN } from '../../reads/batch/failures.ts';
import { assertRunsOf } from '../../reads/run/named-runs.ts';

/** The runs of a batch to cancel: by id, or open runs whose last attempt failed like a group of failures. */
export type CancelChoice = { readonly run_ids: readonly string[] } | { readonly error_group: string };

/**
 * Requests the cancellation of chosen open runs of a batch and returns their number. From then on they take no step. Waiting
 * runs are ended by `commitOverdueRuns`, the others when their answer or result arrives. Ended runs stay as they are.
 * Throws: `not_found`; `validation_failed` for runs of another batch, and for a group without an open run.
 * Locks: the batch row, which seals and submissions wait for, then the runs in id order. Index: primary keys, `run_failing`.
 */
export async function requestRunCancels(
  trx: Tx,
  projectId: string,
  batchId: string,
  choice: CancelChoice,
): Promise<number> {
  const state = await lockBatchState(trx, projectId, batchId);
  if ('run_ids' in choice) await assertRunsOf(trx, batchId, choice.run_ids, 'any');
  const chosen =
    'run_ids' in choice
      ? sql`r.id = ${anyUuid(choice.run_ids)} and r.batch_id = ${batchId}::uuid`
      : sql`r.batch_id = ${batchId}::uuid and r.failing_since is not null and ${GROUP_OF_OPEN} = ${choice.error_group}`;
  const runs = await markRuns(trx, chosen);
  if (runs === 0 && 'error_group' in choice) throw noSuchGroup(state);
  return runs;
}

async function markRuns(trx: Tx, chosen: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ open: number }>`
    with open as materialized (
      select r.id from run r where ${chosen} and r.ended_at is null order by r.id for no key update),
    clock as materialized (select app_now() as now),
    marked as (
      update run r set cancel_requested_at = c.now, overdue_from = least(r.deadline_at, c.now)
        from open o, clock c where r.id = o.id and r.cancel_requested_at is null),
    -- The worker that claims an unsent provider batch takes the steps back.
    unsent as materialized (
      select p.id from provider_batch p
       where p.state = 'building' and p.next_due_at > app_now()
         and exists (select from step s join open o on o.id = s.run_id where s.provider_batch_id = p.id)
       order by p.id for no key update of p skip locked),
    woken as (update provider_batch p set next_due_at = app_now() from unsent u where p.id = u.id)
    select count(*)::int as open from open
  `.execute(trx);
  return rows[0]?.open ?? 0;
}

function noSuchGroup(state: BatchState): NightshiftError {
  const message =
    `names no group with open runs of this batch, which is ${state}; ` +
    'the groups with `retrying` runs are in GET /v1/batches/{job_id}/errors';
  return new NightshiftError('validation_failed', `/error_group ${message}.`, {
    fields: [{ path: '/error_group', message }],
  });
}
