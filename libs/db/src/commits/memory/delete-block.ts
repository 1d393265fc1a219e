import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Deletes a block and takes it from every agent. Its revisions stay for the requests that showed them. Locks the block's row,
 * and so waits for whoever gives it to an agent. Throws `not_found`. Index: primary key, `agent_block_by_block`.
 */
export async function deleteBlock(trx: Tx, projectId: string, blockId: string): Promise<void> {
  const { numAffectedRows } = await sql`
    update block set deleted_at = app_now(), updated_at = app_now()
    where id = ${blockId} and project_id = ${projectId} and deleted_at is null
  `.execute(trx);
  if (Number(numAffectedRows) === 0) {
    throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
  }
  await sql`delete from agent_block where block_id = ${blockId}`.execute(trx);
}
