import { NightshiftError, toWireId } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockConversationOfAgent } from '../../locks/run/lock-conversations.ts';

/**
 * Resets an agent's conversation: later requests, searches, counts and its message list begin behind the present messages.
 * The rows stay for their runs and batches.
 * Throws: `not_found`; `conflict` while a run holds the conversation.
 * Locks: the conversation. Index: primary keys.
 */
export async function resetMessages(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const conversationId = await lockConversationOfAgent(trx, projectId, agentId);
  // A separate statement: it sees a holder that committed during the wait for the lock.
  const { rows } = await sql<{ run_id: string | null }>`
    with free as (
      update conversation c
         set reset_seq = l.seq, context_from_seq = l.seq + 1, summary_to_seq = null
        from (select coalesce((select seq from message where conversation_id = ${conversationId}
                                order by seq desc limit 1), 0) as seq) l
       where c.id = ${conversationId} and c.run_id is null)
    select run_id from conversation where id = ${conversationId}
  `.execute(trx);
  const holder = rows[0]?.run_id ?? null;
  if (holder === null) return;
  throw new NightshiftError(
    'conflict',
    `The run ${toWireId('run', holder)} holds the conversation of agent-${agentId}. Wait for its end, or cancel its batch.`,
  );
}
