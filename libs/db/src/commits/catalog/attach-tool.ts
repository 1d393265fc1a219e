import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockAgent } from '../../locks/catalog/lock-agent.ts';

/**
 * Attaches a tool to an agent, after its other tools; does nothing if it is attached.
 * Throws: `not_found` for the agent or tool.
 * Locks: the agent's row. Index: primary keys.
 */
export async function attachTool(trx: Tx, projectId: string, agentId: string, toolId: string): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  await assertTool(toolsOf(trx, projectId, toolId).forKeyShare(), toolId);
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

/** Detaches a tool from an agent, if attached, as in Letta. Throws: `not_found`. Locks: the agent's row. */
export async function detachTool(trx: Tx, projectId: string, agentId: string, toolId: string): Promise<void> {
  await lockAgent(trx, projectId, agentId);
  await assertTool(toolsOf(trx, projectId, toolId), toolId);
  await trx.deleteFrom('agent_tool').where('agent_id', '=', agentId).where('tool_id', '=', toolId).execute();
}

function toolsOf(trx: Tx, projectId: string, toolId: string) {
  return trx.selectFrom('tool').select('id').where('id', '=', toolId).where('project_id', '=', projectId);
}

async function assertTool(tools: ReturnType<typeof toolsOf>, toolId: string): Promise<void> {
  if ((await tools.executeTakeFirst()) === undefined)
    throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
}
