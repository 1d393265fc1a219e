import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/** Makes changes of one agent follow each other, until the transaction ends. Throws `not_found`. Index: primary key. */
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
 * Makes changes of agents follow each other: locks those of these ids, in id order (after runs that wait or act, before
 * blocks), until the transaction ends. Index: primary key.
 */
export async function lockAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  await trx.selectFrom('agent').where('id', '=', anyUuid(agentIds)).orderBy('id').forNoKeyUpdate().execute();
}

/**
 * Keeps agents as they are, and from being deleted, until the transaction ends: locks them `for share`, in id order, before
 * conversations. Those who only keep them do not wait for each other. Index: primary key.
 */
export async function shareLockAgents(trx: Tx, agentIds: readonly string[]): Promise<void> {
  if (agentIds.length === 0) return;
  await sql`
    select count(*) from (
      select from agent where id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[]) order by id for share
    ) kept
  `.execute(trx);
}
