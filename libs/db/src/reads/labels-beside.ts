import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** A label that an agent uses. */
export interface UsedLabel {
  readonly agent_id: string;
  readonly block_id: string;
  readonly label: string;
}

/**
 * All labels of every agent that has one of these blocks: where one is renamed, none of them may have the new label
 * already. Index: `agent_block_by_block`, primary key of `agent_block`.
 */
export async function readLabelsBeside(trx: Tx, blockIds: readonly string[]): Promise<readonly UsedLabel[]> {
  const { rows } = await sql<UsedLabel>`
    select k.agent_id, k.block_id, k.label from agent_block k
     where k.agent_id in (select agent_id from agent_block where block_id = any(${[...blockIds]}::uuid[]))
  `.execute(trx);
  return rows;
}
