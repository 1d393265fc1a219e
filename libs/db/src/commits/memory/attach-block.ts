import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockAgent } from '../../locks/catalog/lock-agent.ts';
import { shareLockBlocks } from '../../locks/memory/lock-blocks.ts';
import { labelTaken } from '../../reads/memory/labels-beside.ts';

/**
 * Attaches a block to an agent, after its other blocks; does nothing if it is attached.
 * Throws: `not_found` for the agent or block; `conflict` if the agent has another block of that label.
 * Locks: the agent's row, then the block for share. Index: primary keys, the unique (agent, label).
 */
export async function attachBlock(
  trx: Tx,
  projectId: string,
  agentId: string,
  blockId: string,
): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  const kept = await shareLockBlocks(trx, projectId, [blockId]);
  if (!kept.has(blockId)) throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
  const { rows } = await sql<{ label: string; attached: boolean; taken: boolean }>`
    select b.label,
      exists (select from agent_block k where k.agent_id = ${agentId} and k.block_id = b.id) as attached,
      exists (select from agent_block k where k.agent_id = ${agentId} and k.label = b.label) as taken
    from block b where b.id = ${blockId}
  `.execute(trx);
  const [block] = rows;
  if (block === undefined || block.attached) return;
  if (block.taken) throw labelTaken(agentId, block.label);
  await sql`
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select ${agentId}::uuid, b.id, b.label, b.project_id,
      (select coalesce(max(k.position) + 1, 0) from agent_block k where k.agent_id = ${agentId})
    from block b where b.id = ${blockId}
  `.execute(trx);
}

/** Detaches a block from an agent. Throws: `not_found` if it is not attached. Locks: the agent's row. */
export async function detachBlock(
  trx: Tx,
  projectId: string,
  agentId: string,
  blockId: string,
): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  const { numDeletedRows } = await trx
    .deleteFrom('agent_block')
    .where('agent_id', '=', agentId)
    .where('block_id', '=', blockId)
    .executeTakeFirst();
  if (numDeletedRows === 0n) {
    throw new NightshiftError(
      'not_found',
      `The agent agent-${agentId} does not have the block block-${blockId}.`,
    );
  }
}
