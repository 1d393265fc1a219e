import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** Locks a batch and reads its state; throws `not_found`. Sealing waits for it. Index: primary key. */
export async function lockBatchState(trx: Tx, projectId: string, batchId: string): Promise<BatchState> {
  const { rows } = await sql<{ state: BatchState }>`
    select state from batch where id = ${batchId} and project_id = ${projectId} for no key update
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch.state;
}
