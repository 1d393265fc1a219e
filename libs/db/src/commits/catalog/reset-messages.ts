import { NightshiftError, toWireId } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';

/**
 * Resets an agent's conversation: later requests, searches, counts and its message list begin behind the present messages.
 * The rows stay for their runs and batches.
 * Throws: `not_found`; `conflict` while a run holds the conversation.
 * Locks: the conversation. Index: primary keys.
 */
export async function resetMessages(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const agent = await trx
    .selectFrom('agent')
    .select('conversation_id')
    .where('id', '=', agentId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (agent === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  await lockConversations(trx, [agent.conversation_id]);
  // A separate statement: it sees a holder that committed during the wait for the lock.
  const { rows } = await sql<{ run_id: string | null }>`
    with free as (
      update conversation c
         set reset_seq = l.seq, context_from_seq = l.seq + 1, summary_to_seq = null
        from (select coalesce((select seq from message where conversation_id = ${agent.conversation_id}
                                order by seq desc limit 1), 0) as seq) l
       where c.id = ${agent.conversation_id} and c.run_id is null)
    select run_id from conversation where id = ${agent.conversation_id}
  `.execute(trx);
  const holder = rows[0]?.run_id ?? null;
  if (holder === null) return;
  throw new NightshiftError(
    'conflict',
    `The run ${toWireId('run', holder)} holds the conversation of agent-${agentId}. Wait for its end, or cancel its batch.`,
  );
}
