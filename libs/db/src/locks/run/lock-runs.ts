import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { selectRuns, type RunToDecide } from '../../reads/run/runs-to-decide.ts';

/**
 * Locks runs in id order, so that workers with shared runs never deadlock, and reads them with the state of their batch.
 * `for no key update` does not block inserts that refer to a run.
 */
export async function lockRuns(
  trx: Tx,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, RunToDecide>> {
  const { rows } = await sql<RunToDecide>`${selectRuns(runIds)} order by r.id for no key update of r`.execute(
    trx,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Locks the runs with steps in a provider batch, in id order, until the transaction ends. Runs are looked up individually:
 * with outdated statistics a join would compare all runs with all steps (ADR 0024).
 */
export async function lockRunsOf(trx: Tx, providerBatchId: string): Promise<void> {
  await sql`
    with sealed ${AS_FIRST} (
      select run_id from step where provider_batch_id = ${providerBatchId}::uuid order by run_id)
    select count(*)
      from sealed s
      cross join lateral (select from run where id = s.run_id for no key update) locked
  `.execute(trx);
}
