import { NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';

/**
 * Locks an ended batch until the transaction ends (`for no key update`: settlements of its memory take turns).
 * Throws: `not_found`; `batch_running` for a batch whose runs may still write. Index: primary key.
 */
export async function lockEndedBatch(trx: Tx, projectId: string, batchId: string): Promise<void> {
  const batch = await trx
    .selectFrom('batch')
    .select('completed_at')
    .where('id', '=', batchId)
    .where('project_id', '=', projectId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  if (batch.completed_at !== null) return;
  throw new NightshiftError(
    'batch_running',
    `The batch job-${batchId} has not ended: its runs may still write.`,
  );
}
