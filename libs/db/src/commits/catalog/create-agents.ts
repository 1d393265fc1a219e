import {
  NightshiftError,
  SLIDING_WINDOW_DEFAULT,
  toStorableText,
  type CompactionPolicy,
  type ResultFormat,
  type ServerTool,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { shareLockBlocks } from '../../locks/memory/lock-blocks.ts';
import { createBlocks, type NewBlock } from '../memory/create-blocks.ts';
import { jsonRowChunks, storableJson } from '../json-rows.ts';

/** An agent to store; ids come from `newId` and `newConversationId`. */
export interface NewAgent {
  readonly id: string;
  readonly conversation_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly agent_type: string;
  readonly system: string;
  /** Handle, `<provider>/<model name>`. */
  readonly model: string;
  readonly model_settings: object;
  readonly tool_rules: readonly object[];
  readonly metadata: object | null;
  readonly tags: readonly string[];
  readonly timezone: string;
  readonly message_buffer_autoclear: boolean;
  readonly context_window_limit: number;
  /** Compaction of its conversation. Default: a sliding window. */
  readonly compaction?: CompactionPolicy;
  /** Result format of its runs, unless the request names one. Default: any. */
  readonly result_format?: ResultFormat | null;
  /** Server tools of the provider. Default: none. */
  readonly server_tools?: readonly ServerTool[] | null;
  readonly hidden: boolean;
  readonly echoed: object;
  /** New blocks, created with the agent and attached before `block_ids`. */
  readonly blocks: readonly NewBlock[];
  readonly block_ids: readonly string[];
  readonly tool_ids: readonly string[];
}

/**
 * Stores agents with their conversations, new blocks and attachments: six statements per 5,000 agents.
 * Throws: `not_found` for an unknown block or tool; a unique violation for two blocks of one label on an agent.
 * Locks: the attached blocks for share, the tools by key share of their foreign key; else inserts only.
 */
export async function createAgents(trx: Tx, projectId: string, agents: readonly NewAgent[]): Promise<void> {
  for (const { json } of jsonRowChunks(agents.map((agent) => ({ id: agent.conversation_id })))) {
    await sql`
      insert into conversation (id, project_id)
      select id, ${projectId}::uuid from json_to_recordset(${json}::json) as r (id uuid)
    `.execute(trx);
  }
  for (const { json } of jsonRowChunks(agents.map(toRow))) {
    await sql`
      insert into agent (id, project_id, conversation_id, name, description, agent_type, system, model, model_settings,
        tool_rules, metadata, tags, timezone, message_buffer_autoclear, context_window_limit, compaction, hidden,
        echoed, result_format, server_tools)
      select id, ${projectId}::uuid, conversation_id, name, description, agent_type, system, model, model_settings::json,
        tool_rules::json, metadata::json, tags, timezone, message_buffer_autoclear, context_window_limit,
        compaction::json, hidden, echoed::json, result_format::json, server_tools::json
      from json_to_recordset(${json}::json) as r (id uuid, conversation_id uuid, name text, description text,
        agent_type text, system text, model text, model_settings text, tool_rules text, metadata text, tags text[],
        timezone text, message_buffer_autoclear boolean, context_window_limit integer, compaction text, hidden boolean,
        echoed text, result_format text, server_tools text)
    `.execute(trx);
  }
  await createBlocks(
    trx,
    projectId,
    agents.flatMap((agent) => agent.blocks),
  );
  await attachBlocks(trx, projectId, agents);
  await attachTools(trx, projectId, agents);
}

/** Returns the column of server tools: null for none. */
export function serverToolsJson(tools: readonly ServerTool[] | null | undefined): string | null {
  return tools == null || tools.length === 0 ? null : storableJson(tools);
}

function toRow(agent: NewAgent): object {
  return {
    id: agent.id,
    conversation_id: agent.conversation_id,
    name: toStorableText(agent.name),
    description: agent.description === null ? null : toStorableText(agent.description),
    agent_type: agent.agent_type,
    system: toStorableText(agent.system),
    model: toStorableText(agent.model),
    model_settings: storableJson(agent.model_settings),
    tool_rules: storableJson(agent.tool_rules),
    metadata: agent.metadata === null ? null : storableJson(agent.metadata),
    tags: agent.tags.map(toStorableText),
    timezone: agent.timezone,
    message_buffer_autoclear: agent.message_buffer_autoclear,
    context_window_limit: agent.context_window_limit,
    compaction: JSON.stringify(agent.compaction ?? SLIDING_WINDOW_DEFAULT),
    hidden: agent.hidden,
    echoed: storableJson(agent.echoed),
    result_format: agent.result_format == null ? null : storableJson(agent.result_format),
    server_tools: serverToolsJson(agent.server_tools),
  };
}

async function attachBlocks(trx: Tx, projectId: string, agents: readonly NewAgent[]): Promise<void> {
  const shared = [...new Set(agents.flatMap((agent) => agent.block_ids))];
  const kept = await shareLockBlocks(trx, projectId, shared);
  if (!shared.every((id) => kept.has(id))) {
    throw new NightshiftError('not_found', 'A block to attach does not exist.');
  }
  const attachments = agents.flatMap((agent) =>
    [...agent.blocks.map((block) => block.id), ...agent.block_ids].map((block_id, position) => ({
      agent_id: agent.id,
      block_id,
      position,
    })),
  );
  for (const { json } of jsonRowChunks(attachments)) {
    await sql`
      insert into agent_block (agent_id, block_id, label, project_id, position)
      select r.agent_id, b.id, b.label, b.project_id, r.position
      from json_to_recordset(${json}::json) as r (agent_id uuid, block_id uuid, position integer)
      join block b on b.id = r.block_id
    `.execute(trx);
  }
}

async function attachTools(trx: Tx, projectId: string, agents: readonly NewAgent[]): Promise<void> {
  const attachments = agents.flatMap((agent) =>
    agent.tool_ids.map((tool_id, position) => ({ agent_id: agent.id, tool_id, position })),
  );
  for (const { json, count } of jsonRowChunks(attachments)) {
    const { numAffectedRows } = await sql`
      insert into agent_tool (agent_id, tool_id, project_id, position)
      select r.agent_id, t.id, t.project_id, r.position
      from json_to_recordset(${json}::json) as r (agent_id uuid, tool_id uuid, position integer)
      join tool t on t.id = r.tool_id and t.project_id = ${projectId}::uuid
    `.execute(trx);
    if (Number(numAffectedRows) !== count) {
      throw new NightshiftError('not_found', 'A tool to attach does not exist.');
    }
  }
}
