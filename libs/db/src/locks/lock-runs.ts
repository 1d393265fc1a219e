import { sql } from 'kysely';
import type { Tx } from '../connect.ts';
import { selectRuns, type RunToDecide } from '../reads/runs-to-decide.ts';

/**
 * Locks runs in id order, so that two workers that share runs wait and never deadlock, and reads them with the state
 * of their batch. `for no key update`: inserts that refer to a run are not held up.
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
