import { NightshiftError, type BatchState } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';

/** Locks a batch and reads its state; throws `not_found`. Sealing waits for it. Index: primary key. */
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
