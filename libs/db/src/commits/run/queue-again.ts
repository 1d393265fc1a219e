import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { FREED_BUDGETS } from '../../reads/due-conditions.ts';
import { RUNS_PER_CHUNK } from './run-chunks.ts';

/** Maximum batches whose runs one sweep queues. */
const BATCHES_PER_SWEEP = 20;

/**
 * Puts up to `limit` ready runs of a batch without a chunk into chunks, in request order, and returns their number. A run
 * that waits in a chunk for its next attempt stays there. While a pilot runs, only its runs are queued.
 * The caller holds the batch's lock, which seals wait for, so that no run is queued twice. Index:
 * `run_batch_id_ordinal_key`.
 */
export async function queueReadyRuns(trx: Tx, batchId: string, limit: number | null): Promise<number> {
  const queued = sql`select unnest(run_ids) as id from run_chunk where kind = 'ready'`;
  const ready = sql`
    select r.id, r.project_id, r.ordinal from run r
     where r.batch_id = ${batchId}::uuid and r.ended_at is null and r.state = 'ready'
       and coalesce((select ordinals from alone) ? r.ordinal::text, true)`;
  // Neither compares each run with all queued ones when runs have hardly any statistics: a full join is never a nested loop.
  const leftOut =
    limit === null
      ? sql`select r.* from (${ready}) r full join (${queued}) q on q.id = r.id where q.id is null`
      : sql`${ready} and not (select coalesce(jsonb_object_agg(id, true), '{}') from (${queued}) q) ? r.id::text
             order by r.ordinal limit ${limit}`;
  const { rows } = await sql<{ runs: number }>`
    with alone ${AS_FIRST} (
      select jsonb_object_agg(u.ordinal, true) as ordinals
        from batch b cross join lateral unnest(b.pilot_ordinals) as u(ordinal)
       where b.id = ${batchId}::uuid and b.pilot_state = 'running'),
    left_out as (
      select id, project_id, row_number() over (order by ordinal) - 1 as place from (${leftOut}) l),
    chunks as (
      insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
      select gen_random_uuid(), project_id, 'ready', array_agg(id order by place), app_now()
        from left_out group by project_id, place / ${RUNS_PER_CHUNK}
      returning cardinality(run_ids) as runs)
    select coalesce(sum(runs), 0)::int as runs from chunks
  `.execute(trx);
  return rows[0]?.runs ?? 0;
}

/**
 * Queues runs that wait for room in their batch's budget after a release: up to `limit` per batch, so that a few released
 * requests do not requeue a large batch. Returns the number of runs.
 * Locks: the batches, with skip locked.
 */
export async function queueFreedRuns(trx: Tx, limit: number): Promise<number> {
  const { rows } = await sql<{ batch_id: string }>`
    select g.batch_id ${FREED_BUDGETS}
     order by g.batch_id
     limit ${BATCHES_PER_SWEEP}
       for no key update of b skip locked
  `.execute(trx);
  let queued = 0;
  for (const { batch_id } of rows) {
    const runs = await queueReadyRuns(trx, batch_id, limit);
    queued += runs;
    if (runs === limit) continue;
    await sql`update batch_budget set room = 'open' where batch_id = ${batch_id}::uuid and room = 'freed'`.execute(
      trx,
    );
  }
  return queued;
}
