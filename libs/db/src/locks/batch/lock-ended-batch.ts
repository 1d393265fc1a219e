import { NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';

/**
 * Keeps a batch that has ended as it is, until the transaction ends (`for no key update`: two who settle its memory take
 * turns). Throws `not_found`, and `batch_running` for one whose runs may still write. Index: primary key.
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
