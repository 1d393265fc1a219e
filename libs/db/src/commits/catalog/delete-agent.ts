import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, NOW, UNMERGED } from '../../fragments.ts';
import { deleteAgentSecrets } from './delete-secrets.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';

/**
 * Deletes an agent: it is no longer found, and accepts no more runs.
 * Its open runs continue to their end, without its secrets, and results stay. Its blocks are detached at once, or by the sweep after its last
 * open run. Its position in lists stays, so that a cursor on it remains valid.
 * Throws: `not_found`.
 * Locks: the agent's row, then its conversation: a running accept, which holds it, is waited for; a later accept finds the
 * agent deleted.
 */
export async function deleteAgent(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const agent = await trx
    .updateTable('agent')
    .set({ deleted_at: NOW, keeps_blocks: true })
    .where('id', '=', agentId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .returning('conversation_id')
    .executeTakeFirst();
  if (agent === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  await trx.deleteFrom('agent_tool').where('agent_id', '=', agentId).execute();
  await deleteAgentSecrets(trx, projectId, agentId);
  await lockConversations(trx, [agent.conversation_id]);
  await releaseBlocks(trx, sql`select id from agent a where id = ${agentId} and ${HAS_NO_OPEN_RUN}`);
}

/**
 * Detaches the blocks of up to `limit` deleted agents without open runs.
 * Index: `agent_keeping_blocks`, `batch_open`, `run_by_agent`.
 */
export async function commitBlocksReleased(trx: Tx, limit: number): Promise<void> {
  await releaseBlocks(
    trx,
    sql`select id from agent a where keeps_blocks and ${HAS_NO_OPEN_RUN} order by id limit ${limit}`,
  );
}

/**
 * True for an agent `a` without open runs. It reads only runs as old as an open batch, since the agent may have millions.
 * Agents are looked up individually: a join scans a table of runs without statistics.
 */
const HAS_NO_OPEN_RUN = sql`
  not exists (
    select from (select created_at from batch where completed_at is null ${UNMERGED}) b
     where exists (select from run r
                    where r.agent_id = a.id and r.created_at between b.created_at and b.created_at
                      and r.ended_at is null ${UNMERGED}) ${UNMERGED})`;

async function releaseBlocks(trx: Tx, leavers: RawBuilder<unknown>): Promise<void> {
  await sql`
    with gone ${AS_FIRST} (
      select id from agent
       where id = any(array(${leavers}))
       order by id for no key update skip locked),
    released as (delete from agent_block where agent_id = any(array(select id from gone)))
    update agent set keeps_blocks = false where id = any(array(select id from gone))
  `.execute(trx);
}
