import { isJsonObject, messageUuid, parseModelHandle, toWireId } from '@nightshift/agent-core';
import {
  MESSAGE_IDS_MAX,
  readBlocksOfAgents,
  readContextSeqs,
  readContextSeqsOf,
  readLastRuns,
  readToolsOfAgents,
  type AgentBlockRow,
  type AgentRow,
  type AgentToolRow,
  type ContextSeqs,
  type Database,
  type LastRun,
} from '@nightshift/db';
import { mapYielding } from '../yielding.ts';
import type { AgentState } from '../schemas/agent.ts';
import { MASK } from '../schemas/secret.ts';
import { USER_ID } from '../schemas/ids.ts';
import { toCompactionSettings } from './compaction.ts';
import { toBlockResponse } from './to-block.ts';
import { toStopReason } from './to-run.ts';
import { toToolResponse } from './to-tool.ts';

/** Related rows of an agent. */
interface Relations {
  readonly blocks: readonly AgentBlockRow[];
  readonly tools: readonly AgentToolRow[];
  /** The range of its conversation. */
  readonly seqs: ContextSeqs | undefined;
  readonly last_run: LastRun | undefined;
}

/** Reads an agent with all its relations. */
export async function readAgentState(db: Database, agent: AgentRow): Promise<AgentState> {
  const [blocks, tools, seqs, lastRuns] = await Promise.all([
    readBlocksOfAgents(db, [agent.id]),
    readToolsOfAgents(db, [agent.id]),
    readContextSeqs(db, agent.conversation_id),
    readLastRuns(db, [agent.id]),
  ]);
  return toAgentState(agent, { blocks, tools, seqs, last_run: lastRuns.get(agent.id) });
}

/** Reads agents with the requested relations, in at most four statements. */
export async function readAgentStates(
  db: Database,
  agents: readonly AgentRow[],
  include: { readonly blocks: boolean; readonly tools: boolean },
): Promise<readonly AgentState[]> {
  const ids = agents.map((agent) => agent.id);
  const blocks = Map.groupBy(
    include.blocks ? await readBlocksOfAgents(db, ids) : [],
    (block) => block.agent_id,
  );
  const tools = Map.groupBy(include.tools ? await readToolsOfAgents(db, ids) : [], (tool) => tool.agent_id);
  const lastRuns = await readLastRuns(db, ids);
  const seqs = await readContextSeqsOf(
    db,
    agents.map((agent) => agent.conversation_id),
  );
  // The ids of a thousand messages take milliseconds.
  return mapYielding(agents, (agent) =>
    toAgentState(agent, {
      blocks: blocks.get(agent.id) ?? [],
      tools: tools.get(agent.id) ?? [],
      seqs: seqs.get(agent.conversation_id),
      last_run: lastRuns.get(agent.id),
    }),
  );
}

function toAgentState(agent: AgentRow, relations: Relations): AgentState {
  const id = toWireId('agent', agent.id);
  const blocks = relations.blocks.map(toBlockResponse);
  const secrets = toSecrets(agent, id);
  const { echoed } = agent;
  const { last_run } = relations;
  return {
    id,
    name: agent.name,
    agent_type: agent.agent_type,
    description: agent.description,
    system: agent.system,
    model: agent.model,
    model_settings: toModelSettings(agent),
    llm_config: toLlmConfig(agent),
    embedding: textOr(echoed.embedding, null),
    embedding_config: recordOr(echoed.embedding_config, null),
    compaction_settings: toCompactionSettings(agent.compaction, agent.model),
    response_format: recordOr(echoed.response_format, null),
    message_ids: toMessageIds(agent.conversation_id, relations.seqs),
    message_buffer_autoclear: agent.message_buffer_autoclear,
    // Only checked rules are stored.
    tool_rules: agent.tool_rules as AgentState['tool_rules'],
    blocks,
    memory: {
      agent_type: agent.agent_type,
      git_enabled: false,
      blocks,
      file_blocks: [],
      prompt_template: '',
    },
    tools: relations.tools.map(toToolResponse),
    server_tools: [...(agent.server_tools ?? [])],
    sources: [],
    tags: [...agent.tags],
    secrets,
    tool_exec_environment_variables: secrets,
    identities: [],
    identity_ids: [],
    managed_group: null,
    multi_agent_group: null,
    pending_approval: null,
    metadata: agent.metadata,
    timezone: agent.timezone,
    enable_sleeptime: typeof echoed.enable_sleeptime === 'boolean' ? echoed.enable_sleeptime : null,
    hidden: agent.hidden ? true : null,
    max_files_open: integerOr(echoed.max_files_open, 10),
    per_file_view_window_char_limit: integerOr(echoed.per_file_view_window_char_limit, 25_000),
    last_run_completion: last_run?.ended_at.toISOString() ?? null,
    last_run_duration_ms:
      last_run?.started_at == null ? null : last_run.ended_at.getTime() - last_run.started_at.getTime(),
    last_stop_reason: last_run === undefined ? null : toStopReason(last_run.stop_reason),
    project_id: null,
    template_id: null,
    base_template_id: null,
    deployment_id: null,
    entity_id: null,
    created_at: agent.created_at.toISOString(),
    updated_at: agent.updated_at.toISOString(),
    created_by_id: USER_ID,
    last_updated_by_id: USER_ID,
  };
}

/** Returns the ids of the newest messages that a request would show. */
function toMessageIds(conversationId: string, seqs: ContextSeqs | undefined): string[] {
  const { from_seq = 0, last_seq = 0 } = seqs ?? {};
  const first = Math.max(1, from_seq, last_seq - MESSAGE_IDS_MAX + 1);
  return Array.from({ length: last_seq - first + 1 }, (_, index) =>
    toWireId('message', messageUuid(conversationId, first + index)),
  );
}

/** Returns the model settings. Omits absent temperature and thinking, which Letta's clients never expect to be null. */
function toModelSettings(agent: AgentRow): Record<string, unknown> {
  const { max_output_tokens, parallel_tool_calls, extra } = agent.model_settings;
  const { temperature, thinking: _given, ...given } = recordOr(agent.echoed.model_settings, null) ?? {};
  const effort = recordOr(extra.output_config, null)?.effort ?? null;
  return {
    verbosity: null,
    strict: false,
    ...given,
    effort,
    response_format: recordOr(agent.echoed.response_format, null),
    provider_type: 'anthropic',
    max_output_tokens,
    parallel_tool_calls,
    ...(temperature == null ? {} : { temperature }),
    ...(extra.thinking === undefined ? {} : { thinking: extra.thinking }),
  };
}

function toLlmConfig(agent: AgentRow): Record<string, unknown> {
  const handle = parseModelHandle(agent.model);
  const { thinking } = agent.model_settings.extra;
  return {
    model: handle?.name ?? agent.model,
    handle: agent.model,
    provider_name: handle?.provider ?? null,
    provider_category: 'base',
    model_endpoint_type: handle?.provider ?? null,
    model_endpoint: 'https://api.anthropic.com/v1',
    context_window: agent.context_window_limit,
    max_tokens: agent.model_settings.max_output_tokens,
    parallel_tool_calls: agent.model_settings.parallel_tool_calls,
    put_inner_thoughts_in_kwargs: false,
    enable_reasoner: isJsonObject(thinking) && thinking['type'] !== 'disabled',
  };
}

/** Lists the names, with masked values. */
function toSecrets(agent: AgentRow, agentId: string): AgentState['secrets'] {
  const names: readonly unknown[] = Array.isArray(agent.echoed.secret_names) ? agent.echoed.secret_names : [];
  return names.map((name, index) => ({
    id: `agent-env-${agent.id.slice(0, -4)}${index.toString(16).padStart(4, '0')}`,
    agent_id: agentId,
    key: String(name),
    value: MASK,
    description: null,
  }));
}

function textOr(value: unknown, otherwise: null): string | null {
  return typeof value === 'string' ? value : otherwise;
}

function integerOr(value: unknown, otherwise: number): number {
  return Number.isSafeInteger(value) ? (value as number) : otherwise;
}

function recordOr(value: unknown, otherwise: null): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : otherwise;
}
