import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/**
 * Deletes an agent: it can no longer be found or sent anything. Its runs under way go on to their end, and the results of
 * its batches stay; its blocks are let go as soon as no run of it is open. Locks the agent's row. Throws `not_found`.
 */
export async function deleteAgent(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const { numAffectedRows } = await sql`
    update agent set deleted_at = app_now(), updated_at = app_now()
    where id = ${agentId} and project_id = ${projectId} and deleted_at is null
  `.execute(trx);
  if (Number(numAffectedRows) === 0) {
    throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  }
  await sql`delete from agent_tool where agent_id = ${agentId}`.execute(trx);
  await sql`
    delete from agent_block where agent_id = ${agentId}
      and not exists (select from run where agent_id = ${agentId} and ended_at is null)
  `.execute(trx);
}
