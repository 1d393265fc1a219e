import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/**
 * The rest of the transaction, the caller's statements included, is planned without a look at the parameters (ADR 0027). A
 * planner that sees them copies each into its plan, megabytes for a chunk. What is found by them is found by keys; a list that
 * is a filter is a subquery, which is hashed.
 */
export async function forceGenericPlan(trx: Tx): Promise<void> {
  await sql`set local plan_cache_mode = force_generic_plan`.execute(trx);
}
