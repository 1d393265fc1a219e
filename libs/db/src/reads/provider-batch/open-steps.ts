import type { StepKey } from '@nightshift/agent-core';
import type { Database } from '../../connect.ts';

/** Reads the first `limit` steps of a provider batch without an answer. Index: `step_by_provider_batch`. */
export async function readOpenSteps(
  db: Database,
  providerBatchId: string,
  limit: number,
): Promise<readonly StepKey[]> {
  return db
    .selectFrom('step')
    .select(['run_id', 'number', 'attempt'])
    .where('provider_batch_id', '=', providerBatchId)
    .where('state', '=', 'sealed')
    .orderBy('ordinal')
    .limit(limit)
    .execute();
}
