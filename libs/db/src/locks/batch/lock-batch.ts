import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';

/** Locks a batch, which seals wait for, and reads its state. Throws: `not_found`. Index: primary key. */
export async function lockBatchState(trx: Tx, projectId: string, batchId: string): Promise<BatchState> {
  const batch = await trx
    .selectFrom('batch')
    .select('state')
    .where('id', '=', batchId)
    .where('project_id', '=', projectId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch.state;
}
