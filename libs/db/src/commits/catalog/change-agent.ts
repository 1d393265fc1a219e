import {
  NightshiftError,
  toStorableText,
  type CompactionPolicy,
  type ResultFormat,
  type ServerTool,
} from '@nightshift/agent-core';
import { sql, type Updateable } from 'kysely';
import type { Tx } from '../../connect.ts';
import { shareLockBlocks } from '../../locks/memory/lock-blocks.ts';
import { anyUuid, NOW } from '../../fragments.ts';
import type { DB } from '../../tables.ts';
import { storableJson } from '../json-rows.ts';

/** The changeable fields of an agent; absent fields stay. Lists replace the old list. */
export interface AgentChange {
  readonly name?: string;
  readonly description?: string;
  readonly system?: string;
  readonly model?: string;
  readonly model_settings?: object;
  readonly tool_rules?: readonly object[];
  readonly metadata?: object;
  readonly tags?: readonly string[];
  readonly timezone?: string;
  readonly message_buffer_autoclear?: boolean;
  readonly context_window_limit?: number;
  readonly compaction?: CompactionPolicy;
  readonly result_format?: ResultFormat | null;
  /** Null for none. */
  readonly server_tools?: readonly ServerTool[] | null;
  readonly hidden?: boolean;
  readonly echoed?: object;
  readonly block_ids?: readonly string[];
  readonly tool_ids?: readonly string[];
}

/**
 * Changes an agent for batches accepted from now on; open runs keep their definition.
 * Throws: `not_found` for the agent, a block or a tool.
 * Locks: the agent's row, so that changes of an agent run in order, then its new blocks and tools for share.
 */
export async function changeAgent(
  trx: Tx,
  projectId: string,
  agentId: string,
  change: AgentChange,
): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('agent')
    .set({ ...toColumns(change), updated_at: NOW })
    .where('id', '=', agentId)
    .where('project_id', '=', projectId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  if (change.block_ids !== undefined) await replaceBlocks(trx, projectId, agentId, change.block_ids);
  if (change.tool_ids !== undefined) await replaceTools(trx, projectId, agentId, change.tool_ids);
}

function toColumns(change: AgentChange): Updateable<DB['agent']> {
  const { block_ids, tool_ids, ...columns } = change;
  const entries = Object.entries(columns).flatMap(([column, value]: [string, unknown]) => {
    if (value === undefined) return [];
    if (column === 'tags') return [[column, (value as readonly string[]).map(toStorableText)]];
    if (value !== null && typeof value === 'object') return [[column, storableJson(value)]];
    return [[column, typeof value === 'string' ? toStorableText(value) : value]];
  });
  return Object.fromEntries(entries) as Updateable<DB['agent']>;
}

async function replaceBlocks(
  trx: Tx,
  projectId: string,
  agentId: string,
  ids: readonly string[],
): Promise<void> {
  // Before the rows of the old list: a transaction that deletes a block locks them after the block.
  const kept = await shareLockBlocks(trx, projectId, ids);
  if (!ids.every((id) => kept.has(id))) {
    throw new NightshiftError('not_found', 'A block of block_ids does not exist.');
  }
  await trx.deleteFrom('agent_block').where('agent_id', '=', agentId).execute();
  await sql`
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select ${agentId}::uuid, b.id, b.label, b.project_id, u.position
    from unnest(${[...ids]}::uuid[]) with ordinality as u (id, position) join block b on b.id = u.id
  `.execute(trx);
}

async function replaceTools(
  trx: Tx,
  projectId: string,
  agentId: string,
  ids: readonly string[],
): Promise<void> {
  // Before the rows of the old list: a transaction that deletes a tool locks them after the tool.
  await trx
    .selectFrom('tool')
    .where('id', '=', anyUuid(ids))
    .where('project_id', '=', projectId)
    .orderBy('id')
    .forKeyShare()
    .execute();
  await trx.deleteFrom('agent_tool').where('agent_id', '=', agentId).execute();
  const { numAffectedRows } = await sql`
    insert into agent_tool (agent_id, tool_id, project_id, position)
    select ${agentId}::uuid, t.id, t.project_id, u.position
    from unnest(${[...ids]}::uuid[]) with ordinality as u (id, position)
    join tool t on t.id = u.id and t.project_id = ${projectId}
  `.execute(trx);
  if (Number(numAffectedRows) !== ids.length) {
    throw new NightshiftError('not_found', 'A tool of tool_ids does not exist.');
  }
}
