import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/** Serializes changes of an agent until the transaction ends. Throws: `not_found`. Index: primary key. */
export async function lockAgent(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const agent = await trx
    .selectFrom('agent')
    .select('id')
    .where('id', '=', agentId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (agent === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
}

/**
 * Serializes changes of agents until the transaction ends. Locks: the agents in id order, after runs that wait or act,
 * before blocks. Index: primary key.
 */
export async function lockAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  await trx.selectFrom('agent').where('id', '=', anyUuid(agentIds)).orderBy('id').forNoKeyUpdate().execute();
}

/**
 * Protects agents from changes and deletion until the transaction ends. Locks: `for share`, in id order, before
 * conversations.
 * Index: primary key.
 */
export async function shareLockAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  if (agentIds.length === 0) return;
  await sql`
    select count(*) from (
      select from agent where id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[]) order by id for share
    ) kept
  `.execute(trx);
}
