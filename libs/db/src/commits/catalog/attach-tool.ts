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
  const tool = await trx
    .selectFrom('tool')
    .select('id')
    .where('id', '=', toolId)
    .where('project_id', '=', projectId)
    .forKeyShare()
    .executeTakeFirst();
  if (tool === undefined) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  await trx
    .insertInto('agent_tool')
    .values((eb) => ({
      agent_id: agentId,
      tool_id: toolId,
      project_id: projectId,
      position: eb
        .selectFrom('agent_tool as k')
        .select(sql<number>`coalesce(max(k.position) + 1, 0)`.as('position'))
        .where('k.agent_id', '=', agentId),
    }))
    .onConflict((conflict) => conflict.columns(['agent_id', 'tool_id']).doNothing())
    .execute();
}

/** Takes a tool from an agent; nothing happens when it does not have it, as in Letta. Locks the agent's row. Throws `not_found`. */
export async function detachTool(trx: Tx, projectId: string, agentId: string, toolId: string): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  const tool = await trx
    .selectFrom('tool')
    .select('id')
    .where('id', '=', toolId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  if (tool === undefined) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  await trx.deleteFrom('agent_tool').where('agent_id', '=', agentId).where('tool_id', '=', toolId).execute();
}
