import { NightshiftError, type BlockView, type ConflictPolicy } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A block attached to an agent, at its present revision. */
export interface LockedBlock extends BlockView {
  readonly agent_id: string;
  /** The run that wrote this revision; null for a person, or a program, at the API. */
  readonly writer_run_id: string | null;
  readonly conflict_policy: ConflictPolicy;
}

/**
 * Makes writes of one block follow each other, until the transaction ends. A statement after it reads what the one before wrote.
 * Throws `not_found`, also where the block was deleted meanwhile. Index: primary key.
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
 * Keeps blocks from being deleted and renamed until the transaction ends: locks them `for share`, in id order, after agents.
 * Those who only keep them do not wait for each other. Returns the ids of those that are there; a foreign key alone lets a
 * block be attached that is being deleted. Index: primary key.
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
 * Locks every block attached to these agents, in block id order (after runs that wait or act, before those in flight and
 * before conversations), and reads each at its head revision, in attach order per agent. Shared blocks come once per agent that
 * holds them, their texts are sent once. One that is attached while others are waited for is not among them: it is not locked.
 */
export async function lockBlocksOfAgents(
  trx: Tx,
  agentIds: readonly string[],
): Promise<readonly LockedBlock[]> {
  const { rows: locked } = await sql<{ id: string }>`
    select b.id from block b
     where b.id in (select block_id from agent_block where agent_id = any(${agentIds}::uuid[]))
     order by b.id
       for no key update of b
  `.execute(trx);
  // A second statement: it sees what the locks were waited for.
  const { rows } = await sql<Omit<LockedBlock, 'value'> & { readonly value: string | null }>`
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
