import { pilotPlaces, type AfterPilot, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';
import { queueReadyRuns } from '../run/queue-again.ts';
import { stopSending } from './pause-batch.ts';

/**
 * Chooses the runs of a batch's pilot, once all its runs are stored; does nothing for a batch without a pilot.
 * It picks among the runs that hold their conversation, so the pilot waits for no other run, and no two pilots wait for each
 * other. A batch whose runs all wait for earlier batches has none: it picks among the first runs of each conversation.
 * The caller holds the batch. Index: the unique (batch, ordinal).
 */
export async function choosePilot(trx: Tx, batchId: string): Promise<void> {
  const { rows } = await sql<{ runs: number; ready: number[]; firsts: number[] | null }>`
    select (b.pilot->>'runs')::int as runs, o.ready,
           case when o.ready = '{}' then
             array(select min(r.ordinal) from run r where r.batch_id = b.id group by r.conversation_id order by 1) end as firsts
      from batch b
     cross join lateral (
       select array(select r.ordinal from run r where r.batch_id = b.id and r.state = 'ready' order by r.ordinal) as ready) o
     where b.id = ${batchId}::uuid and b.pilot_state = 'running'
  `.execute(trx);
  const [row] = rows;
  if (row === undefined) return;
  const open = row.firsts ?? row.ready;
  const ordinals = pilotPlaces(open.length, row.runs).flatMap((place) => open[place] ?? []);
  await trx.updateTable('batch').set({ pilot_ordinals: ordinals }).where('id', '=', batchId).execute();
}

/**
 * Ends the pilot of a batch as decided: the batch pauses, or its other ready runs are queued unless it is paused already.
 * Returns the number of queued runs. The caller holds the batch and has seen the pilot `running`.
 */
export async function commitPilotEnd(
  trx: Tx,
  batch: { readonly id: string; readonly state: BatchState },
  { move, state, reason, result }: AfterPilot,
): Promise<number> {
  if (move === 'pause') await stopSending(trx, batch.id, reason ?? '');
  await trx
    .updateTable('batch')
    .set({ pilot_state: state, pilot_result: storableJson(result), pilot_ended_at: NOW, updated_at: NOW })
    .where('id', '=', batch.id)
    .where('pilot_state', '=', 'running')
    .execute();
  return move === 'go_on' && batch.state === 'running' ? queueReadyRuns(trx, batch.id, null) : 0;
}
