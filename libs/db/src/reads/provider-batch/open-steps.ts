import type { StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** The first `limit` steps of a provider batch that have no answer yet. Served by step_by_provider_batch. */
export async function readOpenSteps(
  db: Database,
  providerBatchId: string,
  limit: number,
): Promise<readonly StepKey[]> {
  const { rows } = await sql<StepKey>`
    select run_id, number, attempt from step
     where provider_batch_id = ${providerBatchId}::uuid and state = 'sealed'
     order by ordinal limit ${limit}
  `.execute(db);
  return rows;
}
