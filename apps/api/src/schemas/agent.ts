import { listOf, recordOf, toolRuleSchema } from '@nightshift/agent-core';
import { z } from 'zod';
import { blockInput, blockResponse } from './block.ts';
import { compactionResponse, compactionSettings } from './compaction.ts';
import { wireId } from './ids.ts';
import { answered, ignored } from './ignored.ts';
import { responseFormat } from './response-format.ts';
import { lettaStopReason } from './run.ts';
import { hasNoControls, storedName } from './text.ts';
import { toolResponse } from './tool.ts';

/** Letta's kinds of agents. */
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

/** Those of Letta for Anthropic. What stands in `thinking` is the provider's to know. */
const modelSettings = z
  .strictObject({
    provider_type: z.literal('anthropic', 'must be anthropic: the provider of the message batches').nullish(),
    max_output_tokens: outputTokens.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    response_format: responseFormat.nullish().describe('Goes before that of the agent.'),
    thinking: record
      .nullish()
      .describe(
        'Sent in the form that the model takes: `enabled` with budget_tokens, at least 1024 and less than max_output_tokens, on ' +
          'models up to 4.6; `adaptive` on later ones. The type is `enabled` and its budget_tokens 1024 where they are left out; ' +
          'with another type budget_tokens are left out. `disabled` turns it off, and is refused for a model that always thinks.',
      ),
    effort: effort.describe(
      'Sent as output_config.effort to models that take it: not to Haiku 4.5 and Sonnet 4.5.',
    ),
    temperature: z.number().nullish().describe('Echoed, never sent: the provider refuses it.'),
    verbosity: z.unknown().optional().describe('Echoed, never sent.'),
    strict: z.unknown().optional().describe('Echoed, never sent.'),
  })
  .meta({ id: 'ModelSettings' });

/** Letta's older form of the settings: what a server answered of itself is sent back, so its other fields are left alone. */
const llmConfig = z
  .looseObject({
    model: z
      .string()
      .nullish()
      .describe(
        "Name without the provider. In an update without a `model` beside `llm_config`, whichever of it and `handle` is not the agent's is meant.",
      ),
    handle: z.string().nullish(),
    provider_name: z.string().nullish(),
    model_endpoint_type: z.string().nullish(),
    context_window: contextWindow.nullish().describe('Means context_window_limit, which goes before it.'),
    max_tokens: outputTokens.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    effort: effort.describe('That of model_settings goes before it.'),
    response_format: responseFormat
      .nullish()
      .describe('That of model_settings and that of the agent go before it.'),
  })
  .meta({ id: 'LlmConfig' });

/** What create and update have in common; `null` counts as left out. Fields that Letta does not know either are refused. */
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
    .describe(
      'What results of its runs must look like where their requests do not say it; text asks for nothing.',
    ),
  context_window_limit: contextWindow
    .nullish()
    .describe('Tokens of prompt and answer together; default 128000.'),
  tool_rules: listOf(toolRule, 500).nullish(),
  tool_ids: listOf(wireId('tool'), 500).nullish(),
  block_ids: listOf(wireId('block'), 500).nullish(),
  tags: listOf(storedName(255), 100).nullish(),
  metadata: record.nullish(),
  secrets: recordOf(z.string(), 500).nullish().describe('Only the names are kept.'),
  tool_exec_environment_variables: recordOf(z.string(), 500).nullish(),
  timezone: z.string().max(100).nullish(),
  message_buffer_autoclear: z.boolean().nullish(),
  enable_sleeptime: z.boolean().nullish(),
  hidden: z.boolean().nullish(),
  max_files_open: z.int().nullish(),
  per_file_view_window_char_limit: z.int().nullish(),
  initial_message_sequence: z
    .array(z.unknown())
    .max(0, 'must be empty: history comes in messages of the first request of a batch')
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
    include_base_tools: z
      .boolean()
      .nullish()
      .describe('Whether it gets the base tools of its type; default true.'),
    include_base_tool_rules: z
      .boolean()
      .nullish()
      .describe(
        'Whether it gets rules for its base tools: a run ends after send_message and memory_finish_edits, and goes on after ' +
          'the others. Default true, but for letta_v1_agent.',
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
    agent_type: z.null('is chosen at creation only').optional(),
    memory_blocks: z.null('are made at creation only: attach a block by block_ids').optional(),
    tools: z.null('are named at creation only: send tool_ids').optional(),
    include_base_tools: z.null('is for creation only').optional(),
    include_base_tool_rules: z.null('is for creation only').optional(),
  })
  .meta({ id: 'AgentUpdate' });
export type AgentPatch = Pick<z.output<typeof agentPatch>, keyof typeof agentFields>;

/** A secret's name; its value is never answered. */
const secret = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    key: z.string(),
    value: z.string(),
    description: z.string().nullable(),
  })
  .meta({ id: 'AgentSecret' });

/** An agent on the wire, with all keys that Letta's clients know. */
export const agentState = z
  .object({
    id: z.string(),
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
    message_ids: z.array(z.string()),
    message_buffer_autoclear: z.boolean(),
    tool_rules: z.array(record),
    blocks: z.array(blockResponse),
    memory: z.object({
      agent_type: z.string(),
      git_enabled: z.boolean(),
      blocks: z.array(blockResponse),
      file_blocks: z.array(z.unknown()),
      prompt_template: z.string(),
    }),
    tools: z.array(toolResponse),
    sources: z.array(z.unknown()),
    tags: z.array(z.string()),
    secrets: z.array(secret),
    tool_exec_environment_variables: z.array(secret),
    identities: z.array(z.unknown()),
    identity_ids: z.array(z.string()),
    managed_group: z.null(),
    multi_agent_group: z.null(),
    pending_approval: z.null(),
    metadata: record.nullable(),
    timezone: z.string(),
    enable_sleeptime: z.boolean().nullable(),
    hidden: z.boolean().nullable(),
    max_files_open: z.int(),
    per_file_view_window_char_limit: z.int(),
    last_run_completion: z
      .string()
      .nullable()
      .describe(
        'When its last run ended: the latest that was accepted, of those that have ended. Null, with the next two, where none ' +
          'of its 100 latest runs has.',
      ),
    last_run_duration_ms: z
      .int()
      .nullable()
      .describe('Of that run, from its start to its end; null if it never started.'),
    last_stop_reason: lettaStopReason.nullable().describe('Of that run.'),
    project_id: z.null(),
    template_id: z.null(),
    base_template_id: z.null(),
    deployment_id: z.null(),
    entity_id: z.null(),
    created_at: z.string(),
    updated_at: z.string(),
    created_by_id: z.string(),
    last_updated_by_id: z.string(),
  })
  .meta({ id: 'AgentState' });
export type AgentState = z.output<typeof agentState>;
