import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A batch that tries runs of another batch again. */
export interface RetryBatch {
  readonly id: string;
  readonly has_ended: boolean;
}

/** Most batches of a chain. */
const CHAIN_MAX = 1_000;

/**
 * Reads the batches that try a batch's runs again, and their retries, oldest first.
 * Throws: `validation_failed` for more than {@link CHAIN_MAX}. Index: `batch_by_retry`.
 */
export async function readRetryChain(
  db: Database,
  projectId: string,
  batchId: string,
): Promise<readonly RetryBatch[]> {
  const { rows } = await sql<RetryBatch>`
    with recursive chain as (
      select b.id, b.created_at, b.completed_at from batch b where b.retry_of = ${batchId}::uuid and b.project_id = ${projectId}::uuid
      union
      select b.id, b.created_at, b.completed_at from chain c join batch b on b.retry_of = c.id and b.project_id = ${projectId}::uuid),
    bounded as (select * from chain limit ${CHAIN_MAX + 1})
    select id, completed_at is not null as has_ended from bounded order by created_at, id
  `.execute(db);
  if (rows.length <= CHAIN_MAX) return rows;
  const message = `cannot hold retries: the batch has more than ${CHAIN_MAX.toLocaleString('en-US')} of them`;
  throw new NightshiftError('validation_failed', `?include ${message}.`, {
    fields: [{ path: '?include', message }],
  });
}
