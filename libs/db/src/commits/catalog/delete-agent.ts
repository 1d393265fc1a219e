import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, NOW, UNMERGED } from '../../fragments.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';

/**
 * Deletes an agent: it can no longer be found or sent anything. Its runs under way go on to their end, and the results of
 * its batches stay; its blocks are let go at once, or by the sweep when no run of it is open any more. Locks the agent's row,
 * then its conversation, of which an accept holds one: one that is under way is waited for, and one that comes later finds
 * the agent deleted. Its place in lists stays where it was, for who pages on from it. Throws `not_found`.
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
  await lockConversations(trx, [agent.conversation_id]);
  await releaseBlocks(trx, sql`select id from agent a where id = ${agentId} and ${HAS_NO_OPEN_RUN}`);
}

/**
 * Lets go of the blocks of deleted agents that have no open run any more, up to `limit` of them. Index: `agent_keeping_blocks`,
 * `batch_open`, `run_by_agent`.
 */
export async function commitBlocksReleased(trx: Tx, limit: number): Promise<void> {
  await releaseBlocks(
    trx,
    sql`select id from agent a where keeps_blocks and ${HAS_NO_OPEN_RUN} order by id limit ${limit}`,
  );
}

/**
 * Of an agent, `a`. Of its runs only those are looked at that are as old as an open batch: it may have had millions. Asked
 * agent by agent: joined, a table of runs that was never counted is scanned.
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
