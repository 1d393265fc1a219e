import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Locks conversations `for no key update`, in id order, until the transaction ends.
 * Every transaction that changes which run holds a conversation (an accept, the end of a run) needs this lock. It may give
 * it only to a run with this `run.conversation_id`: no index refuses a second conversation of a run (ADR 0025).
 * Read dependent rows in a later statement, since this one's snapshot is from before the wait. Index: primary key.
 */
export async function lockConversations(trx: Tx, conversationIds: readonly string[]): Promise<void> {
  if (conversationIds.length === 0) return;
  await sql`
    select count(*) from (
      select from conversation where id = any(${uuidArray(conversationIds)}::uuid[]) order by id for no key update
    ) locked
  `.execute(trx);
}

/**
 * Locks the conversation of an agent and returns its id. Throws: `not_found` for an unknown or deleted agent.
 * Index: primary keys.
 */
export async function lockConversationOfAgent(trx: Tx, projectId: string, agentId: string): Promise<string> {
  const agent = await trx
    .selectFrom('agent')
    .select('conversation_id')
    .where('id', '=', agentId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (agent === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  await lockConversations(trx, [agent.conversation_id]);
  return agent.conversation_id;
}

/** As {@link lockConversations}, for the conversations of agents. */
export async function lockConversationsOfAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  await sql`
    select count(*) from (
      select from conversation c
       where c.id in (select a.conversation_id from agent a where a.id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[]))
       order by c.id for no key update of c
    ) locked
  `.execute(trx);
}
