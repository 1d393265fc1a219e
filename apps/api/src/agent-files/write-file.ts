import { toInternalMessage, type ReturnedCalls, type InternalMessage } from '@nightshift/agent-core';
import type { MessageRow } from '@nightshift/db';
import type { AgentState } from '../schemas/agent.ts';
import type { BlockResponse } from '../schemas/block.ts';
import type { ToolResponse } from '../schemas/tool.ts';
import { toStoredMessage } from '../wire/to-stored-message.ts';
import { OWN_KEY, withOwnMetadata } from './fields.ts';

/** An agent to write, with its conversation. */
export interface ExportedAgent {
  readonly agent: AgentState;
  readonly created_at: string;
  readonly messages: readonly MessageRow[];
  readonly returned_calls: ReturnedCalls;
  /** Number of the first message that requests show. */
  readonly from_seq: number;
}

type Fields = Record<string, unknown>;

const AGENT = 'agent-0';

/** Writes Letta's present format. */
export function toAgentFile(exported: ExportedAgent) {
  const { agent } = exported;
  return {
    agents: [toFileAgent(exported)],
    groups: [],
    blocks: agent.blocks.map((block, index) => ({
      id: `block-${index}`,
      ...toFileBlock(block),
      metadata: blockMetadata(block),
    })),
    files: [],
    sources: [],
    tools: agent.tools.map((tool, index) => ({ ...toFileTool(tool), id: `tool-${index}` })),
    mcp_servers: [],
    metadata: { [OWN_KEY]: '1' },
    created_at: exported.created_at,
  };
}

function toFileAgent(exported: ExportedAgent): Fields {
  const { agent, messages } = exported;
  return {
    id: AGENT,
    name: agent.name,
    description: agent.description,
    system: agent.system,
    agent_type: agent.agent_type,
    ...{ memory_blocks: [], tools: [] },
    tool_ids: agent.tools.map((_, index) => `tool-${index}`),
    block_ids: agent.blocks.map((_, index) => `block-${index}`),
    ...{ source_ids: [], folder_ids: [], group_ids: [], files_agents: [] },
    tool_rules: agent.tool_rules,
    tags: agent.tags,
    metadata: agentMetadata(agent, {}),
    model: agent.model,
    model_settings: agent.model_settings,
    llm_config: agent.llm_config,
    embedding: agent.embedding,
    embedding_config: agent.embedding_config,
    response_format: agent.response_format,
    context_window_limit: agent.llm_config['context_window'],
    message_buffer_autoclear: agent.message_buffer_autoclear,
    timezone: agent.timezone,
    enable_sleeptime: agent.enable_sleeptime,
    hidden: agent.hidden,
    max_files_open: agent.max_files_open,
    per_file_view_window_char_limit: agent.per_file_view_window_char_limit,
    tool_exec_environment_variables: Object.fromEntries(agent.secrets.map(({ key }) => [key, ''])),
    include_base_tools: false,
    include_base_tool_rules: false,
    include_multi_agent_tools: false,
    include_default_source: false,
    initial_message_sequence: null,
    in_context_message_ids: messages.flatMap(({ seq }, index) =>
      seq >= exported.from_seq ? [`message-${index}`] : [],
    ),
    messages: messages.map((row, index) => ({
      ...toFileMessage(row, exported),
      id: `message-${index}`,
      agent_id: AGENT,
    })),
  };
}

/** Writes Letta's older format. */
export function toLegacyFile(exported: ExportedAgent) {
  const { agent, messages } = exported;
  const times = { created_at: agent.created_at, updated_at: agent.updated_at };
  return {
    agent_type: agent.agent_type,
    core_memory: agent.blocks.map((block) => ({
      ...toFileBlock(block),
      ...times,
      metadata_: blockMetadata(block),
    })),
    ...times,
    description: agent.description,
    embedding_config: agent.embedding_config,
    in_context_message_indices: messages.flatMap(({ seq }, index) =>
      seq >= exported.from_seq ? [index] : [],
    ),
    llm_config: agent.llm_config,
    message_buffer_autoclear: agent.message_buffer_autoclear,
    messages: messages.map((row) => {
      const message = toFileMessage(row, exported);
      return { ...message, tool_calls: message.tool_calls ?? [], updated_at: message.created_at };
    }),
    metadata_: agentMetadata(agent, {
      model: agent.model,
      model_settings: agent.model_settings,
      embedding: agent.embedding,
      response_format: agent.response_format,
      context_window_limit: agent.llm_config['context_window'],
      timezone: agent.timezone,
      enable_sleeptime: agent.enable_sleeptime,
      hidden: agent.hidden,
      max_files_open: agent.max_files_open,
      per_file_view_window_char_limit: agent.per_file_view_window_char_limit,
    }),
    multi_agent_group: null,
    name: agent.name,
    system: agent.system,
    tags: agent.tags.map((tag) => ({ tag })),
    tool_exec_environment_variables: agent.secrets.map(({ key }) => ({
      ...times,
      key,
      value: '',
      description: null,
    })),
    tool_rules: agent.tool_rules,
    tools: agent.tools.map((tool) => ({ ...toFileTool(tool), ...times })),
    version: '0.16.7',
  };
}

/** Adds the fields that Letta does not know. */
function agentMetadata(agent: AgentState, others: Fields): Fields {
  const { compaction_settings, server_tools } = agent;
  const tools = server_tools.length === 0 ? {} : { server_tools };
  return withOwnMetadata(agent.metadata, { compaction_settings, ...tools, ...others });
}

function toFileBlock(block: BlockResponse): Fields {
  const { label, value, limit, description, read_only, is_template } = block;
  return {
    label,
    value,
    limit,
    description,
    read_only,
    is_template,
    template_name: null,
    preserve_on_migration: null,
  };
}

function blockMetadata({ metadata, conflict_policy, hidden, tags }: BlockResponse): Fields {
  return withOwnMetadata(metadata, { conflict_policy, hidden, tags });
}

function toFileTool(tool: ToolResponse): Fields {
  const { kind: _kind, side_effects: _effects, ...rest } = tool;
  return rest;
}

function toFileMessage(
  row: MessageRow,
  { agent, returned_calls }: ExportedAgent,
): Fields & Pick<InternalMessage, 'tool_calls'> {
  const agentId = agent.id.slice('agent-'.length);
  const message = toInternalMessage(toStoredMessage(row, agentId), returned_calls);
  return {
    role: message.role,
    content: message.content,
    name: message.name,
    otid: message.otid,
    ...{ sender_id: null, group_id: null, batch_item_id: null },
    model: message.model,
    tool_calls: message.tool_calls,
    tool_call_id: message.tool_call_id,
    tool_returns: message.tool_returns,
    created_at: (row.said_at ?? row.created_at).toISOString(),
    ...{ approve: null, approval_request_id: null, denial_reason: null, approvals: [] },
  };
}

/** Writes an agent as a line that an import takes back: with its blocks by value, and without its messages. */
export function toAgentLine(
  agent: AgentState,
): { readonly id: string; readonly name: string; readonly model: string } & Fields {
  return {
    id: agent.id,
    name: agent.name,
    description: agent.description,
    system: agent.system,
    agent_type: agent.agent_type,
    model: agent.model,
    model_settings: agent.model_settings,
    embedding: agent.embedding,
    embedding_config: agent.embedding_config,
    compaction_settings: agent.compaction_settings,
    response_format: agent.response_format,
    context_window_limit: agent.llm_config['context_window'],
    tool_rules: agent.tool_rules,
    tags: agent.tags,
    metadata: agent.metadata,
    secrets: Object.fromEntries(agent.secrets.map(({ key }) => [key, ''])),
    timezone: agent.timezone,
    message_buffer_autoclear: agent.message_buffer_autoclear,
    enable_sleeptime: agent.enable_sleeptime,
    hidden: agent.hidden,
    max_files_open: agent.max_files_open,
    per_file_view_window_char_limit: agent.per_file_view_window_char_limit,
    memory_blocks: agent.blocks.map(toLineBlock),
    tools: agent.tools.map(({ name }) => name),
    server_tools: agent.server_tools,
    include_base_tools: false,
    include_base_tool_rules: false,
  };
}

/** Fields of a block that a line holds. */
const LINE_BLOCK = [
  ...(['id', 'label', 'value', 'limit', 'description', 'read_only'] as const),
  ...(['is_template', 'metadata', 'conflict_policy', 'hidden', 'tags'] as const),
];

function toLineBlock(block: BlockResponse): Fields {
  return Object.fromEntries(LINE_BLOCK.map((name) => [name, block[name]]));
}
