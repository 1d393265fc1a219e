import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/**
 * Plans the rest of the transaction, the caller's statements included, without reading parameters (ADR 0027). Otherwise the
 * planner copies each parameter into its plan, megabytes for a chunk. Rows are found by keys; a list that filters is a
 * subquery, which is hashed.
 */
export async function forceGenericPlan(trx: Tx): Promise<void> {
  await sql`set local plan_cache_mode = force_generic_plan`.execute(trx);
}
