import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockAgent } from '../../locks/catalog/lock-agent.ts';

/**
 * Gives an agent a tool, after those it has; nothing happens when it has it. Locks the agent's row. Throws `not_found` for
 * either. Index: primary keys.
 */
export async function attachTool(trx: Tx, projectId: string, agentId: string, toolId: string): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  const { rows } = await sql`
    select 1 from tool where id = ${toolId} and project_id = ${projectId} for key share
  `.execute(trx);
  if (rows.length === 0) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  await sql`
    insert into agent_tool (agent_id, tool_id, project_id, position)
    values (${agentId}, ${toolId}, ${projectId},
      (select coalesce(max(k.position) + 1, 0) from agent_tool k where k.agent_id = ${agentId}))
    on conflict (agent_id, tool_id) do nothing
  `.execute(trx);
}

/** Takes a tool from an agent; nothing happens when it does not have it, as in Letta. Locks the agent's row. Throws `not_found`. */
export async function detachTool(trx: Tx, projectId: string, agentId: string, toolId: string): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  const { rows } = await sql`select 1 from tool where id = ${toolId} and project_id = ${projectId}`.execute(
    trx,
  );
  if (rows.length === 0) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  await sql`delete from agent_tool where agent_id = ${agentId} and tool_id = ${toolId}`.execute(trx);
}
