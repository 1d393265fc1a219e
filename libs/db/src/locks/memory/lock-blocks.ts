import { NightshiftError, type StoredBlock } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Serializes writes of a block until the transaction ends; a later statement reads the previous writer's commit.
 * Throws: `not_found`, also for a block deleted meanwhile. Index: primary key.
 */
export async function lockBlock(trx: Tx, projectId: string, blockId: string): Promise<void> {
  const block = await trx
    .selectFrom('block')
    .select('id')
    .where('id', '=', blockId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (block === undefined) throw new NightshiftError('not_found', `There is no block block-${blockId}.`);
}

/**
 * Protects blocks from deletion and renaming until the transaction ends, and returns the ids of existing blocks.
 * A foreign key alone would accept a block that is being deleted.
 * Locks: `for share`, in id order, after agents. Index: primary key.
 */
export async function shareLockBlocks(
  trx: Tx,
  projectId: string,
  blockIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (blockIds.length === 0) return new Set();
  const { rows } = await sql<{ id: string }>`
    select id from block
     where id = any((select ${uuidArray(blockIds)}::uuid[])::uuid[]) and project_id = ${projectId} and deleted_at is null
     order by id for share
  `.execute(trx);
  return new Set(rows.map((row) => row.id));
}

/**
 * Locks all blocks attached to these agents, and reads each at its head revision, per agent in attach order.
 * A shared block comes once per agent, with its text sent once. A block attached during the wait is not included, because
 * it is not locked.
 * Locks: blocks in id order, after runs that wait or act, before runs in flight and conversations.
 */
export async function lockBlocksOfAgents(
  trx: Tx,
  agentIds: readonly string[],
): Promise<readonly StoredBlock[]> {
  const { rows: locked } = await sql<{ id: string }>`
    select b.id from block b
     where b.id in (select block_id from agent_block where agent_id = any(${agentIds}::uuid[]))
     order by b.id
       for no key update of b
  `.execute(trx);
  // A separate statement: it sees commits from during the wait for the locks.
  const { rows } = await sql<Omit<StoredBlock, 'value'> & { readonly value: string | null }>`
    select ab.agent_id, b.id as block_id, r.revision, b.label, r.description, r.char_limit, r.read_only,
           case when row_number() over (partition by b.id) = 1 then r.value end as value,
           r.run_id as writer_run_id, b.conflict_policy
      from agent_block ab
      join block b on b.id = ab.block_id
      join block_revision r on r.block_id = b.id and r.revision = b.head_revision
     where ab.agent_id = any(${agentIds}::uuid[])
     order by ab.agent_id, ab.position
  `.execute(trx);
  const texts = new Map(
    rows.flatMap(({ block_id, value }) => (value === null ? [] : [[block_id, value] as const])),
  );
  const held = new Set(locked.map((block) => block.id));
  return rows
    .filter((block) => held.has(block.block_id))
    .map((block) => ({ ...block, value: block.value ?? texts.get(block.block_id) ?? '' }));
}
