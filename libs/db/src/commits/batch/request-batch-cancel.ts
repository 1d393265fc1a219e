import { batchMachine, canTake, transition, type PilotState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';

/**
 * Requests the cancellation of a batch: `cancelling`, due at once for the cancel flow. Returns false, and changes nothing,
 * for a batch that has ended or is being cancelled. `reason`: why the system cancels it; null for a caller's cancel.
 * Throws: `not_found`.
 * Locks: the batch row, since the decision depends on its state. Index: primary key.
 */
export async function requestBatchCancel(
  trx: Tx,
  projectId: string,
  batchId: string,
  reason: string | null = null,
): Promise<boolean> {
  const state = await lockBatchState(trx, projectId, batchId);
  if (!canTake(batchMachine, state, 'cancel')) return false;
  await trx
    .updateTable('batch')
    .set((eb) => ({
      state: transition(batchMachine, state, 'cancel'),
      state_reason: reason,
      cancel_requested_at: NOW,
      next_due_at: NOW,
      updated_at: NOW,
      pilot_state: sql<PilotState | null>`case when pilot_state in ('running', 'waiting') then 'stopped' else pilot_state end`,
      // A batch that is still being received keeps the runs stored so far.
      total: eb.ref('accepted'),
    }))
    .where('id', '=', batchId)
    .where('state', '=', state)
    .execute();
  return true;
}
