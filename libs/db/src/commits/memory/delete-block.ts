import { NightshiftError } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';

/**
 * Deletes a block and detaches it from every agent. Its revisions stay for the requests that showed them.
 * Throws: `not_found`.
 * Locks: the block's row, so it waits for transactions that attach the block. Index: primary key, `agent_block_by_block`.
 */
export async function deleteBlock(trx: Tx, projectId: string, blockId: string): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('block')
    .set({ deleted_at: NOW, updated_at: NOW })
    .where('id', '=', blockId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
  await trx.deleteFrom('agent_block').where('block_id', '=', blockId).execute();
}
