import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Keeps a batch that has ended as it is, until the transaction ends (`for no key update`: two who settle its memory take
 * turns). Throws `not_found`, and `batch_running` for one whose runs may still write. Index: primary key.
 */
export async function lockEndedBatch(trx: Tx, projectId: string, batchId: string): Promise<void> {
  const { rows } = await sql<{ ended: boolean }>`
    select completed_at is not null as ended from batch
     where id = ${batchId} and project_id = ${projectId} for no key update
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  if (batch.ended) return;
  throw new NightshiftError(
    'batch_running',
    `The batch job-${batchId} has not ended: its runs may still write.`,
  );
}
