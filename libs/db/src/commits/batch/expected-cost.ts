import type { Database } from '../../connect.ts';

/** Notes that a batch was estimated, with its expected cost, if any. The first estimate stands. */
export async function commitExpectedCost(
  db: Database,
  batchId: string,
  nanoUsd: number | null,
): Promise<void> {
  await db
    .updateTable('batch')
    .set({ is_estimated: true, expected_nanousd: nanoUsd })
    .where('id', '=', batchId)
    .where('is_estimated', '=', false)
    .execute();
}
