import { listOf, toolRuleSchema } from '@nightshift/agent-core';
import { z } from 'zod';
import { blockInput, blockResponse } from './block.ts';
import { compactionResponse, compactionSettings } from './compaction.ts';
import { shownId, UUID, wireId } from './ids.ts';
import { answered, ignored } from './ignored.ts';
import { shownTime } from './moment.ts';
import { responseFormat } from './response-format.ts';
import { lettaStopReason } from './run.ts';
import { serverTools } from './run-options.ts';
import { agentSecrets } from './secret.ts';
import { hasNoControls, storedName } from './text.ts';
import { toolRuleResponse } from './tool-rule.ts';
import { toolResponse } from './tool.ts';
import { AGENT } from './examples/agents.ts';

/** Letta's agent types. */
export const AGENT_TYPES = [
  'letta_v1_agent',
  'memgpt_agent',
  'memgpt_v2_agent',
  'react_agent',
  'workflow_agent',
  'split_thread_agent',
  'sleeptime_agent',
  'voice_convo_agent',
  'voice_sleeptime_agent',
] as const;
export type AgentType = (typeof AGENT_TYPES)[number];

const toolRule = toolRuleSchema.meta({ id: 'ToolRule' });
const record = z.record(z.string(), z.unknown());
const outputTokens = z.int().min(1).max(300_000);
const contextWindow = z.int().min(1).max(10_000_000);
const effort = z.enum(['low', 'medium', 'high', 'max']).nullish();

/** Letta's settings for Anthropic. The provider validates `thinking`. */
const modelSettings = z
  .strictObject({
    provider_type: z.literal('anthropic', "must be 'anthropic', the only supported provider").nullish(),
    max_output_tokens: outputTokens.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    response_format: responseFormat.nullish().describe("Overrides the agent's response_format."),
    thinking: record
      .nullish()
      .describe(
        'Models up to version 4.6 take `enabled` with budget_tokens (from 1024, below max_output_tokens); later models ' +
          'take `adaptive`. Default: `enabled` with budget_tokens 1024, sent in the form of the model. Only `enabled` ' +
          'sends budget_tokens. `disabled` is refused for a model that always thinks.',
      ),
    effort: effort.describe(
      'Sent as output_config.effort to models that accept it: not to Haiku 4.5 and Sonnet 4.5.',
    ),
    temperature: z.number().nullish().describe('Echoed, never sent, because the provider refuses it.'),
    verbosity: z.unknown().optional().describe('Echoed, never sent.'),
    strict: z.unknown().optional().describe('Echoed, never sent.'),
  })
  .meta({ id: 'ModelSettings' });

/** Letta's older form of the settings. Clients send back whole answers, so unknown fields are ignored. */
const llmConfig = z
  .looseObject({
    model: z
      .string()
      .nullish()
      .describe(
        "Name without the provider. If an update sends `llm_config` but not the agent's `model`, the field of `model` " +
          'and `handle` that differs from the stored value is used.',
      ),
    handle: z.string().nullish(),
    provider_name: z.string().nullish(),
    model_endpoint_type: z.string().nullish(),
    context_window: contextWindow.nullish().describe('Same as context_window_limit, which overrides it.'),
    max_tokens: outputTokens.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    effort: effort.describe('Overridden by model_settings.effort.'),
    response_format: responseFormat
      .nullish()
      .describe("Overridden by model_settings and by the agent's own field."),
  })
  .meta({ id: 'LlmConfig' });

/** Fields shared by create and update; `null` counts as absent. Fields unknown to Letta are refused. */
const agentFields = {
  name: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .regex(/^[\p{L}\p{N}\p{M}_ '-]+$/u, "may hold letters, digits, spaces, _ ' and - only")
    .nullish(),
  description: z.string().nullish(),
  system: z.string().nullish(),
  model: z.string().max(200).nullish().describe('Handle, <provider>/<model name>.'),
  model_settings: modelSettings.nullish(),
  llm_config: llmConfig.nullish(),
  max_tokens: outputTokens.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  embedding: z.string().nullish(),
  embedding_config: record.nullish(),
  compaction_settings: compactionSettings.nullish(),
  response_format: responseFormat
    .nullish()
    .describe('Default format of the results of its runs; text means no format.'),
  context_window_limit: contextWindow
    .nullish()
    .describe('Tokens of prompt and answer together; default 128000.'),
  tool_rules: listOf(toolRule, 500).nullish(),
  server_tools: serverTools
    .nullish()
    .describe(
      'Tools of the provider, such as web search, sent unchanged behind the other tools. Tool rules cannot name them. Beyond Letta.',
    ),
  tool_ids: listOf(wireId('tool'), 500).nullish(),
  block_ids: listOf(wireId('block'), 500).nullish(),
  tags: listOf(storedName(255), 100).nullish(),
  metadata: record.nullish(),
  secrets: agentSecrets
    .nullish()
    .describe(
      'Values for the tools that name them, stored encrypted and never returned. They take precedence over secrets of ' +
        'the project. `********` keeps the stored value; an empty value is none.',
    ),
  tool_exec_environment_variables: agentSecrets.nullish().describe('Older name of `secrets`.'),
  timezone: z.string().max(100).nullish(),
  message_buffer_autoclear: z.boolean().nullish(),
  enable_sleeptime: z.boolean().nullish(),
  hidden: z.boolean().nullish(),
  max_files_open: z.int().nullish(),
  per_file_view_window_char_limit: z.int().nullish(),
  initial_message_sequence: z
    .array(z.unknown())
    .max(0, "must be empty; send the history as `messages` of the agent's first request in a batch")
    .nullish(),
  base_template_id: ignored,
  embedding_chunk_size: ignored,
  enable_reasoner: ignored,
  folder_ids: ignored,
  from_template: ignored,
  identity_ids: ignored,
  include_default_source: ignored,
  include_multi_agent_tools: ignored,
  last_run_completion: answered,
  last_run_duration_ms: answered,
  last_stop_reason: answered,
  max_reasoning_tokens: ignored,
  memory_variables: ignored,
  message_ids: ignored,
  project: ignored,
  project_id: ignored,
  reasoning: ignored,
  source_ids: ignored,
  template: ignored,
  template_id: ignored,
};

export const agentInput = z
  .strictObject({
    ...agentFields,
    agent_type: z.enum(AGENT_TYPES).nullish(),
    memory_blocks: listOf(blockInput, 500).nullish().describe('New blocks, made with the agent.'),
    tools: listOf(z.string().min(1).max(64).refine(hasNoControls, 'must not hold control characters'), 500)
      .nullish()
      .describe('Names of tools.'),
    include_base_tools: z.boolean().nullish().describe('Adds the base tools of its type; default true.'),
    include_base_tool_rules: z
      .boolean()
      .nullish()
      .describe(
        'Adds rules for its base tools: a run ends after send_message and memory_finish_edits, and continues after the ' +
          'others. Default true, except for letta_v1_agent.',
      ),
  })
  .meta({
    id: 'AgentCreate',
    examples: [
      {
        name: 'Notes of Ann',
        model: 'anthropic/claude-haiku-4-5',
        memory_blocks: [{ label: 'human', value: 'Name: Ann' }],
        tools: ['rethink_memory'],
      },
    ],
  });
export type AgentInput = z.output<typeof agentInput>;

export const agentPatch = z
  .strictObject({
    ...agentFields,
    agent_type: z.null('is for creation only').optional(),
    memory_blocks: z.null('is for creation only: attach a block by block_ids').optional(),
    tools: z.null('is for creation only: send tool_ids').optional(),
    include_base_tools: z.null('is for creation only').optional(),
    include_base_tool_rules: z.null('is for creation only').optional(),
  })
  .meta({ id: 'AgentUpdate', examples: [{ description: 'Keeps the notes of Ann.', max_tokens: 4_096 }] });
export type AgentPatch = Pick<z.output<typeof agentPatch>, keyof typeof agentFields>;

/** A secret of an agent. Its value is masked. */
const secret = z
  .object({
    id: z.string().meta({ pattern: `^agent-env-${UUID}$` }),
    agent_id: shownId('agent'),
    key: z.string(),
    value: z.string(),
    description: z.string().nullable(),
  })
  .meta({ id: 'AgentSecret' });

/** An agent on the wire, with all keys of Letta's clients. */
export const agentState = z
  .object({
    id: shownId('agent'),
    name: z.string(),
    agent_type: z.string(),
    description: z.string().nullable(),
    system: z.string(),
    model: z.string(),
    model_settings: record,
    llm_config: record,
    embedding: z.string().nullable(),
    embedding_config: record.nullable(),
    compaction_settings: compactionResponse,
    response_format: record.nullable(),
    message_ids: z.array(shownId('message')),
    message_buffer_autoclear: z.boolean(),
    tool_rules: z.array(toolRuleResponse),
    blocks: z.array(blockResponse),
    memory: z.object({
      agent_type: z.string(),
      git_enabled: z.boolean(),
      blocks: z.array(blockResponse),
      file_blocks: z.array(z.unknown()),
      prompt_template: z.string(),
    }),
    tools: z.array(toolResponse),
    server_tools: z.array(record).describe('Beyond Letta.'),
    sources: z.array(z.unknown()),
    tags: z.array(z.string()),
    secrets: z.array(secret),
    tool_exec_environment_variables: z.array(secret),
    identities: z.array(z.unknown()),
    identity_ids: z.array(z.never()),
    managed_group: z.null(),
    multi_agent_group: z.null(),
    pending_approval: z.null(),
    metadata: record.nullable(),
    timezone: z.string(),
    enable_sleeptime: z.boolean().nullable(),
    hidden: z.boolean().nullable(),
    max_files_open: z.int(),
    per_file_view_window_char_limit: z.int(),
    last_run_completion: shownTime
      .nullable()
      .describe(
        "End time of the newest ended run among the agent's latest 100. Without such a run, this and the next two " +
          'fields are null.',
      ),
    last_run_duration_ms: z
      .int()
      .nullable()
      .describe('Duration of that run, from start to end; null if it never started.'),
    last_stop_reason: lettaStopReason.nullable().describe('Stop reason of that run.'),
    project_id: z.null(),
    template_id: z.null(),
    base_template_id: z.null(),
    deployment_id: z.null(),
    entity_id: z.null(),
    created_at: shownTime,
    updated_at: shownTime,
    created_by_id: shownId('user'),
    last_updated_by_id: shownId('user'),
  })
  .meta({ id: 'AgentState', examples: [AGENT] });
export type AgentState = z.output<typeof agentState>;
