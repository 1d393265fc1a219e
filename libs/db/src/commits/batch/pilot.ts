import { pilotPlaces, type AfterPilot, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, NOW, UNMERGED } from '../../fragments.ts';
import { storableJson } from '../json-rows.ts';
import { queueReadyRuns } from '../run/queue-again.ts';
import { stopSending } from './pause-batch.ts';

/** Runs to measure for each run of a pilot. It bounds the work for a large batch. */
const MEASURED_PER_RUN = 20;

/**
 * Chooses the runs of a batch's pilot, once all its runs are stored; does nothing for a batch without a pilot.
 * It picks among the runs that hold their conversation, so the pilot waits for no other run, and no two pilots wait for each
 * other. A batch whose runs all wait for earlier batches has none: it picks among the first runs of each conversation.
 * The runs are sampled evenly by the stored bytes of their input and memory, which make most of the difference in cost.
 * The sizes of a few candidates for each place are read, and no text.
 * The caller holds the batch. Index: the unique (batch, ordinal), primary keys of `message`, `agent_block`, `block_revision`.
 */
export async function choosePilot(trx: Tx, batchId: string): Promise<void> {
  const batch = await trx
    .selectFrom('batch')
    .select('pilot')
    .where('id', '=', batchId)
    .where('pilot_state', '=', 'running')
    .executeTakeFirst();
  if (batch?.pilot == null) return;
  const { runs } = batch.pilot;
  const ready = await readReady(trx, batchId);
  const open =
    ready.length > 0
      ? await sortBySize(trx, batchId, sampleOf(ready, runs * MEASURED_PER_RUN))
      : await readFirstRuns(trx, batchId);
  const ordinals = sampleOf(open, runs);
  await trx
    .updateTable('batch')
    .set({ pilot_ordinals: ordinals.toSorted((a, b) => a - b) })
    .where('id', '=', batchId)
    .execute();
}

function sampleOf(ordinals: readonly number[], count: number): readonly number[] {
  return pilotPlaces(ordinals.length, count).flatMap((place) => ordinals[place] ?? []);
}

/** Reads the ordinals of the ready runs. */
async function readReady(trx: Tx, batchId: string): Promise<readonly number[]> {
  const { rows } = await sql<{ ordinals: number[] }>`
    select array(select ordinal from run where batch_id = ${batchId}::uuid and state = 'ready' order by 1) as ordinals
  `.execute(trx);
  return rows[0]?.ordinals ?? [];
}

/**
 * Sorts ordinals of runs, those with a small input and memory first. Sizes are compared as stored, because the length of
 * JSON is known only once its text is decompressed.
 */
async function sortBySize(trx: Tx, batchId: string, ordinals: readonly number[]): Promise<readonly number[]> {
  const { rows } = await sql<{ ordinals: number[] }>`
    with measured ${AS_FIRST} (
      select r.ordinal, r.agent_id, i.bytes
        from unnest(${[...ordinals]}::int[]) as o(ordinal)
       cross join lateral (
         select ordinal, agent_id, conversation_id, first_seq, last_seq from run
          where batch_id = ${batchId}::uuid and ordinal = o.ordinal ${UNMERGED}) r
       cross join lateral (
         select coalesce(sum(pg_column_size(m.content)), 0) as bytes from message m
          where m.conversation_id = r.conversation_id and m.seq between r.first_seq and r.last_seq ${UNMERGED}) i),
    remembering ${AS_FIRST} (
      select a.agent_id, m.bytes
        from (select distinct agent_id from measured) a
       cross join lateral (
         select coalesce(sum(pg_column_size(v.value)), 0) as bytes
           from agent_block ab
          cross join lateral (select id, head_revision from block where id = ab.block_id ${UNMERGED}) b
          cross join lateral (
            select value from block_revision where block_id = b.id and revision = b.head_revision ${UNMERGED}) v
          where ab.agent_id = a.agent_id ${UNMERGED}) m)
    select array(select r.ordinal from measured r join remembering m using (agent_id)
                  order by r.bytes + m.bytes, r.ordinal) as ordinals
  `.execute(trx);
  return rows[0]?.ordinals ?? [];
}

/** Reads the ordinals of the first run of each conversation. */
async function readFirstRuns(trx: Tx, batchId: string): Promise<readonly number[]> {
  const { rows } = await sql<{ ordinal: number }>`
    select min(ordinal) as ordinal from run where batch_id = ${batchId}::uuid group by conversation_id order by 1
  `.execute(trx);
  return rows.map(({ ordinal }) => ordinal);
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
