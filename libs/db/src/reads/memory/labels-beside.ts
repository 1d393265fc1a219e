import { NightshiftError, toStorableText, type UsedLabel } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Reads all labels of every agent that has one of these blocks, since a new label must be free for each of them.
 * Index: `agent_block_by_block`, primary key of `agent_block`.
 */
export async function readLabelsBeside(trx: Tx, blockIds: readonly string[]): Promise<readonly UsedLabel[]> {
  const { rows } = await sql<UsedLabel>`
    select k.agent_id, k.block_id, k.label from agent_block k
     where k.agent_id in (select agent_id from agent_block where block_id = any(${[...blockIds]}::uuid[]))
  `.execute(trx);
  return rows;
}

/**
 * Checks that no agent with this block has another block with the label. A simultaneous attach is refused by a unique
 * constraint.
 * Throws: `conflict`. Index: `agent_block_by_block`, the unique (agent, label).
 */
export async function assertLabelFree(trx: Tx, blockId: string, label: string): Promise<void> {
  const { rows } = await sql<{ agent_id: string }>`
    select k.agent_id from agent_block h join agent_block k on k.agent_id = h.agent_id
     where h.block_id = ${blockId} and k.label = ${toStorableText(label)} and k.block_id <> h.block_id limit 1
  `.execute(trx);
  const [taken] = rows;
  if (taken !== undefined) throw labelTaken(taken.agent_id, label);
}

/** The error of a second block with the same label on an agent. */
export function labelTaken(agentId: string, label: string): NightshiftError {
  return new NightshiftError(
    'conflict',
    `The agent agent-${agentId} already has a block labelled '${label}'.`,
  );
}
