import type { BlockView, ConflictPolicy } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** A block attached to an agent, at its present revision. */
export interface LockedBlock extends BlockView {
  readonly agent_id: string;
  /** The run that wrote this revision; null for a person, or a program, at the API. */
  readonly writer_run_id: string | null;
  readonly conflict_policy: ConflictPolicy;
}

/**
 * Locks every block attached to these agents, in block id order (after runs that wait or act, before those in flight and
 * before conversations), and reads each at its head revision, in attach order per agent. Shared blocks come once per agent that holds them.
 */
export async function lockBlocksOfAgents(
  trx: Tx,
  agentIds: readonly string[],
): Promise<readonly LockedBlock[]> {
  await sql`
    select b.id from block b
     where b.id in (select block_id from agent_block where agent_id = any(${agentIds}::uuid[]))
     order by b.id
       for no key update of b
  `.execute(trx);
  // A second statement: it sees what the locks were waited for.
  const { rows } = await sql<LockedBlock>`
    select ab.agent_id, b.id as block_id, r.revision, b.label, r.description, r.value, r.char_limit, r.read_only,
           r.run_id as writer_run_id, b.conflict_policy
      from agent_block ab
      join block b on b.id = ab.block_id
      join block_revision r on r.block_id = b.id and r.revision = b.head_revision
     where ab.agent_id = any(${agentIds}::uuid[])
     order by ab.agent_id, ab.position
  `.execute(trx);
  return rows;
}
