import { batchMachine, canTake, NightshiftError, transition, type PilotState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';
import { uuidArray } from '../../uuid-array.ts';
import { queueReadyRuns } from '../run/queue-again.ts';
import { commitUnsentDue } from '../provider-batch/unsent-due.ts';

/**
 * Pauses a batch for an operator: no further step is sealed or sent.
 * Steps at the provider are ingested. Sealed, unsent steps are taken back at the next look, and their reservations
 * released.
 * A batch paused at its cap counts as paused by the operator from now on, so that a raised cap does not resume it.
 * Throws: `not_found`; `conflict` for a batch that has ended or is being cancelled.
 */
export async function pauseBatch(trx: Tx, projectId: string, batchId: string, reason: string): Promise<void> {
  const state = await lockBatchState(trx, projectId, batchId);
  if (state !== 'paused' && !canTake(batchMachine, state, 'pause')) {
    throw new NightshiftError('conflict', `The batch is ${state}; only a running one can be paused.`);
  }
  await stopSending(trx, batchId, reason);
}

/**
 * Pauses batches whose requests were cancelled at the provider's console, like {@link pauseBatch}. Skips batches that an
 * operator paused, that are being cancelled, or that have ended.
 * Locks: the batches in id order.
 */
export async function pauseBatches(trx: Tx, batchIds: readonly string[], reason: string): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select b.id from batch b
     where b.id = any(${uuidArray(batchIds)}::uuid[])
       and (b.state = 'running' or (b.state = 'paused' and exists (
             select from batch_budget g where g.batch_id = b.id and g.room <> 'open')))
     order by b.id
       for no key update
  `.execute(trx);
  for (const { id } of rows) await stopSending(trx, id, reason);
}

/** Pauses a running or paused batch with a reason. The caller holds the batch. */
export async function stopSending(trx: Tx, batchId: string, reason: string): Promise<void> {
  await trx
    .updateTable('batch')
    .set({ state: 'paused', state_reason: reason, updated_at: NOW })
    .where('id', '=', batchId)
    .where('state', 'in', ['running', 'paused'])
    .execute();
  // Runs that waited for room now wait for the resume.
  await markRoomOpen(trx, batchId);
  await commitUnsentDue(trx, batchId);
}

/**
 * Resumes a paused batch, also one that waits after its pilot, queues its ready runs once each, and returns their number. A running batch stays unchanged.
 * Throws: `not_found`; `conflict` for a batch that has ended or is being cancelled.
 */
export async function resumeBatch(trx: Tx, projectId: string, batchId: string): Promise<number> {
  const state = await lockBatchState(trx, projectId, batchId);
  if (state === 'running') return 0;
  if (!canTake(batchMachine, state, 'resume')) {
    throw new NightshiftError('conflict', `The batch is ${state}; only a paused one can be resumed.`);
  }
  return setRunning(trx, batchId);
}

/**
 * Sets a paused batch running, or a running batch whose runs wait for room, and queues all its ready runs; only those of
 * the pilot while it runs. A pilot that has ended is passed.
 */
export async function setRunning(trx: Tx, batchId: string): Promise<number> {
  const to = transition(batchMachine, 'paused', 'resume');
  await trx
    .updateTable('batch')
    .set({ state: to, state_reason: null, updated_at: NOW, pilot_state: PASSED })
    .where('id', '=', batchId)
    .where('state', '=', 'paused')
    .execute();
  await markRoomOpen(trx, batchId);
  return queueReadyRuns(trx, batchId, null);
}

/** The state of a pilot after a resume. */
const PASSED = sql<PilotState | null>`case when pilot_ended_at is null then pilot_state else 'passed' end`;

/** Notes that no ready run of the batch waits for room in its budget. */
async function markRoomOpen(trx: Tx, batchId: string): Promise<void> {
  await trx
    .updateTable('batch_budget')
    .set({ room: 'open' })
    .where('batch_id', '=', batchId)
    .where('room', '<>', 'open')
    .execute();
}
