import { batchMachine, canTake, NightshiftError, transition, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/**
 * Asks for the cancellation of a batch: `cancelling`, due at once for the cancel flow. Locks the batch row, so that it is
 * decided from the state that is changed. Returns false, and changes nothing, for a batch that has ended or is being
 * cancelled already. Throws `not_found`. Index: primary key.
 */
export async function requestBatchCancel(trx: Tx, projectId: string, batchId: string): Promise<boolean> {
  const { rows } = await sql<{ state: BatchState }>`
    select state from batch where id = ${batchId} and project_id = ${projectId} for no key update
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  if (!canTake(batchMachine, batch.state, 'cancel')) return false;
  await sql`
    update batch set state = ${transition(batchMachine, batch.state, 'cancel')}, state_reason = null,
      cancel_requested_at = app_now(), next_due_at = app_now(), updated_at = app_now()
    where id = ${batchId} and state = ${batch.state}
  `.execute(trx);
  return true;
}
