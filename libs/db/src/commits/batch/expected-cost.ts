import type { Database } from '../../connect.ts';

/** Stores the expected cost of a batch, once. */
export async function commitExpectedCost(db: Database, batchId: string, nanoUsd: number): Promise<void> {
  await db
    .updateTable('batch')
    .set({ expected_nanousd: nanoUsd })
    .where('id', '=', batchId)
    .where('expected_nanousd', 'is', null)
    .execute();
}
