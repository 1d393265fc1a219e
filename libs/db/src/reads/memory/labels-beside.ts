import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

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

/**
 * Throws `conflict` where an agent that has this block has another one of a label that it is to get. One that gets it at the same
 * time is refused by a unique constraint. Index: `agent_block_by_block`, the unique (agent, label).
 */
export async function assertLabelFree(trx: Tx, blockId: string, label: string): Promise<void> {
  const { rows } = await sql<{ agent_id: string }>`
    select k.agent_id from agent_block h join agent_block k on k.agent_id = h.agent_id
     where h.block_id = ${blockId} and k.label = ${toStorableText(label)} and k.block_id <> h.block_id limit 1
  `.execute(trx);
  const [taken] = rows;
  if (taken !== undefined) throw labelTaken(taken.agent_id, label);
}

/** An agent has one block of a label. */
export function labelTaken(agentId: string, label: string): NightshiftError {
  return new NightshiftError(
    'conflict',
    `The agent agent-${agentId} already has a block labelled '${label}'.`,
  );
}
