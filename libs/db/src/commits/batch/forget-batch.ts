import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid, AS_FIRST } from '../../fragments.ts';
import { isEmptied, isExpired, IS_FREE, IS_UNSETTLED } from '../../reads/due-conditions.ts';

/**
 * Forgets an ended batch: it is gone for callers with the commit, and the flow `forget-batches` removes its rows.
 * Throws: `not_found`; `batch_running` for a batch that has not ended; `conflict` while changes are held for review, while
 * a retry of it is being received, and while the batch that it retries is not forgotten.
 * Locks: the batch. Index: primary keys, `batch_by_retry`.
 */
export async function forgetBatch(trx: Tx, projectId: string, batchId: string): Promise<void> {
  const { rows } = await sql<{ has_ended: boolean }>`
    select completed_at is not null as has_ended from batch
     where id = ${batchId}::uuid and project_id = ${projectId}::uuid for update
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  if (!batch.has_ended) {
    throw new NightshiftError(
      'batch_running',
      `The batch job-${batchId} has not ended. Cancel it, and delete it when its state is final.`,
    );
  }
  const blocked = await readBlocks(trx, batchId);
  if (blocked.is_unsettled) {
    throw new NightshiftError(
      'conflict',
      `Memory changes of the batch job-${batchId} are held for review. Accept or reject them, then delete it.`,
    );
  }
  if (blocked.retry_id !== null) {
    throw new NightshiftError(
      'conflict',
      `The batch job-${blocked.retry_id} retries runs of job-${batchId} and is still receiving. Delete job-${batchId} later.`,
    );
  }
  if (blocked.retried_id !== null) {
    throw new NightshiftError(
      'conflict',
      `The batch job-${batchId} retries runs of job-${blocked.retried_id}. Delete job-${blocked.retried_id} first.`,
    );
  }
  await moveToForgotten(trx, sql`select ${batchId}::uuid as id`);
}

interface Blocks {
  readonly is_unsettled: boolean;
  /** A retry that is being received. */
  readonly retry_id: string | null;
  /** The batch that it retries. */
  readonly retried_id: string | null;
}

async function readBlocks(trx: Tx, batchId: string): Promise<Blocks> {
  const { rows } = await sql<Blocks>`
    select ${IS_UNSETTLED} as is_unsettled,
           (select id from batch r where r.retry_of = b.id and r.state = 'receiving' limit 1) as retry_id,
           (select id from batch o where o.id = b.retry_of) as retried_id
      from batch b where b.id = ${batchId}::uuid
  `.execute(trx);
  return rows[0] ?? { is_unsettled: false, retry_id: null, retried_id: null };
}

/**
 * Forgets up to `limit` batches whose time is over, oldest first, and returns their number. `retentionDays` null: only those
 * with a time of their own.
 * Locks: the batches, with skip locked. Index: `batch_by_end`, `batch_expiring`.
 */
export async function forgetExpiredBatches(
  trx: Tx,
  retentionDays: number | null,
  limit: number,
): Promise<number> {
  const expired = await sql<{ id: string }>`${isExpired(retentionDays, limit)}`.execute(trx);
  if (expired.rows.length === 0) return 0;
  const ids = anyUuid(expired.rows.map(({ id }) => id));
  const { rows } = await sql<{ id: string }>`
    select id from batch where id = ${ids} order by id for update skip locked
  `.execute(trx);
  // A retry or a revert may have committed between the two statements.
  return moveToForgotten(
    trx,
    sql`select b.id from batch b where b.id = ${anyUuid(rows.map(({ id }) => id))} and ${IS_FREE}`,
  );
}

/** Replaces rows of batches by rows that are due for the flow. Counts and budgets go with them. */
async function moveToForgotten(trx: Tx, ids: RawBuilder<unknown>): Promise<number> {
  const { numAffectedRows } = await sql`
    with chosen ${AS_FIRST} (${ids}),
    gone as (delete from batch b using chosen where b.id = chosen.id returning b.*)
    insert into forgotten_batch
      (id, project_id, state, created_at, completed_at, schedule_id, tick_due_at, cost_nanousd, next_due_at)
    select id, project_id, state, created_at, completed_at, schedule_id, tick_due_at,
           coalesce((select sum(cost_nanousd) from batch_tally t where t.batch_id = gone.id), 0), app_now()
      from gone
  `.execute(trx);
  return Number(numAffectedRows ?? 0n);
}

/**
 * Removes up to `limit` provider batches whose steps are all removed, `days` after they were made: until then the provider
 * may list them, and without their rows they would look like strangers.
 * Index: `provider_batch_emptied`, primary keys.
 */
export async function removeEmptyProviderBatches(trx: Tx, days: number, limit: number): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select id from provider_batch where ${isEmptied(days)} order by created_at limit ${limit} for update skip locked
  `.execute(trx);
  const ids = anyUuid(rows.map(({ id }) => id));
  if (rows.length === 0) return 0;
  await sql`delete from result_line where provider_batch_id = ${ids}`.execute(trx);
  await sql`delete from doubted_submission where provider_batch_id = ${ids}`.execute(trx);
  await sql`delete from provider_batch where id = ${ids}`.execute(trx);
  return rows.length;
}
