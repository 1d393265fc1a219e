import {
  MAX_OUTPUT_TOKENS_DEFAULT,
  NightshiftError,
  SLIDING_WINDOW_DEFAULT,
  type PriceTable,
} from '@nightshift/agent-core';
import { newConversationId, newId, type NewAgent, type ToolRow } from '@nightshift/db';
import { toResultFormat } from '@nightshift/intake';
import type { AgentInput } from '../../schemas/agent.ts';
import { toCompactionPolicy } from '../../wire/compaction.ts';
import { toNewBlock } from '../../wire/to-block.ts';
import { echoedOf, responseFormatOf } from './echoed.ts';
import { contextWindowOf, modelOf, modelSettingsOf } from './model-choice.ts';
import { nameAgent } from './name-agent.ts';
import { SYSTEM_PROMPT_DEFAULT } from './system-prompt.ts';
import { assertTimeZone } from './time-zone.ts';
import { baseRulesOf, baseToolsOf, type RequestedTools } from './tool-choice.ts';

const AGENT_TYPE_DEFAULT = 'letta_v1_agent';
const CONTEXT_WINDOW_DEFAULT = 128_000;

/** Returns the tools that a new agent asks for. */
export function toolsOf(body: AgentInput): RequestedTools {
  return {
    base: body.include_base_tools === false ? [] : baseToolsOf(body.agent_type ?? AGENT_TYPE_DEFAULT),
    names: body.tools ?? [],
    ids: body.tool_ids ?? [],
  };
}

/** Returns the rules of a new agent, with those of its base tools. */
export function rulesOf(body: AgentInput, tools: readonly ToolRow[]): NewAgent['tool_rules'] {
  const own = body.tool_rules ?? [];
  const wanted = body.include_base_tool_rules ?? null;
  const names = tools.map((tool) => tool.name);
  return [...own, ...baseRulesOf(body.agent_type ?? AGENT_TYPE_DEFAULT, wanted, names, own)];
}

/**
 * Converts a request to an agent without tools and rules.
 * Throws: `invalid_argument` without a model, `validation_failed`.
 */
export function toNewAgent(body: AgentInput, prices: PriceTable): NewAgent {
  const model = modelOf(body, prices, null);
  if (model === null) {
    const message = "Name the agent's model as anthropic/<model>; GET /v1/models/ lists the models.";
    throw new NightshiftError('invalid_argument', message, { fields: [{ path: '/model', message }] });
  }
  assertTimeZone(body.timezone ?? 'UTC');
  const agent_type = body.agent_type ?? AGENT_TYPE_DEFAULT;
  const response_format = responseFormatOf(body);
  return {
    id: newId(),
    conversation_id: newConversationId(),
    name: body.name ?? nameAgent(),
    description: body.description ?? null,
    agent_type,
    system: body.system ?? SYSTEM_PROMPT_DEFAULT,
    model,
    model_settings: modelSettingsOf(body, model, null) ?? {
      max_output_tokens: MAX_OUTPUT_TOKENS_DEFAULT,
      parallel_tool_calls: true,
      extra: {},
    },
    tool_rules: [],
    metadata: body.metadata ?? null,
    tags: [...new Set(body.tags ?? [])],
    timezone: body.timezone ?? 'UTC',
    message_buffer_autoclear: agent_type === 'workflow_agent' || (body.message_buffer_autoclear ?? false),
    context_window_limit: contextWindowOf(body) ?? CONTEXT_WINDOW_DEFAULT,
    compaction: toCompactionPolicy(body.compaction_settings, model, null) ?? SLIDING_WINDOW_DEFAULT,
    hidden: body.hidden ?? false,
    server_tools: body.server_tools ?? null,
    result_format: response_format === null ? null : toResultFormat(response_format),
    echoed: echoedOf(body, {}),
    blocks: (body.memory_blocks ?? []).map((block, index) => toNewBlock(block, `/memory_blocks/${index}`)),
    block_ids: [...new Set(body.block_ids ?? [])],
    tool_ids: [],
  };
}
