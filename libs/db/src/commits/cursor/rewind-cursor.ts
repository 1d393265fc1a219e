import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockConversationOfAgent } from '../../locks/run/lock-conversations.ts';
import { countNewMessages } from '../../reads/cursor/read-cursors.ts';

/** A message by number (0: before the first), or the moment from which on messages are new again. */
export type RewindTarget = { readonly seq: number } | { readonly before: string };

/**
 * Moves an agent's cursor behind a message, in either direction; runs of before no longer count. A cursor without runs
 * yet begins there.
 * Messages are ordered by arrival: with `before` every message said since then is new, and so are earlier ones that arrived
 * later.
 * Throws: `not_found` for the agent or the message; `conflict` while a run under the cursor is open or its changes are held.
 * Locks: the agent's conversation. Index: primary keys; `before` reads the conversation up to the moment.
 */
export async function rewindCursor(
  trx: Tx,
  projectId: string,
  agentId: string,
  name: string,
  target: RewindTarget,
): Promise<void> {
  const conversationId = await lockConversationOfAgent(trx, projectId, agentId);
  const topSeq = await readSettledTop(trx, projectId, agentId, name);
  if ('seq' in target && target.seq > topSeq) {
    const message = `the conversation of agent-${agentId} has no message ${target.seq}`;
    throw new NightshiftError('not_found', `/to_message_id: ${message}.`, {
      fields: [{ path: '/to_message_id', message }],
    });
  }
  const toSeq = 'seq' in target ? target.seq : await readSeqBefore(trx, conversationId, target.before);
  await trx
    .insertInto('cursor_rewind')
    .values({ agent_id: agentId, name, project_id: projectId, to_seq: toSeq, rewinds: 1 })
    .onConflict((conflict) =>
      conflict.columns(['agent_id', 'name']).doUpdateSet((eb) => ({
        to_seq: toSeq,
        rewinds: eb('cursor_rewind.rewinds', '+', 1),
        rewound_at: NOW,
      })),
    )
    .execute();
}

/** Returns the conversation's last message. Throws: `conflict` while the cursor's last run is open or held. */
async function readSettledTop(trx: Tx, projectId: string, agentId: string, name: string): Promise<number> {
  const place = (await countNewMessages(trx, projectId, name, [agentId], { messages_max: 1 })).get(agentId);
  if (place === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  if (place.skip === 'under_way') {
    throw new NightshiftError(
      'conflict',
      `A run under the cursor ${name} of agent-${agentId} is open. Wait for its end, or cancel its batch.`,
    );
  }
  if (place.skip === 'in_review') {
    throw new NightshiftError(
      'conflict',
      `Changes under the cursor ${name} of agent-${agentId} are held. Accept or reject them first.`,
    );
  }
  return place.top_seq;
}

/** Reads the number of the last message before all that were said at `moment` or later. */
async function readSeqBefore(trx: Tx, conversationId: string, moment: string): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select coalesce(
      (select seq - 1 from message
        where conversation_id = ${conversationId} and coalesce(said_at, created_at) >= ${moment}::timestamptz
        order by seq limit 1),
      (select seq from message where conversation_id = ${conversationId} order by seq desc limit 1), 0) as seq
  `.execute(trx);
  return rows[0]?.seq ?? 0;
}
