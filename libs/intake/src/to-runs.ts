import {
  nanoUsdOf,
  type Cap,
  type ContentBlock,
  type JsonObject,
  type ToolChoice,
  type ToolDefinition,
} from '@nightshift/agent-core';
import type { InputMessage, NewRun } from '@nightshift/db';
import {
  MAX_STEPS_DEFAULT,
  type CapRequest,
  type ClientTool,
  type Content,
  type InputRequest,
  type RunRequest,
  type ToolsRequest,
} from './request.ts';
import { toResultFormat } from './to-result-format.ts';

/** The same list for all requests without tools, so that their definitions are serialized once. */
const NO_TOOLS: readonly ToolDefinition[] = [];

/** Converts a request to a new run. `tools` is the choice of its batch. */
export function toNewRun(request: RunRequest, tools: ToolChoice | null): NewRun {
  return {
    agent_id: request.agent_id,
    custom_id: request.custom_id ?? null,
    max_steps: request.max_steps ?? MAX_STEPS_DEFAULT,
    messages: toMessages(request),
    isolated: request.conversation === 'isolated',
    deadline: request.deadline ?? null,
    cap: toCap(request),
    client_tools: request.client_tools?.map(toClientTool) ?? NO_TOOLS,
    tools: toToolChoice(request, tools),
    result_format:
      request.response_format == null ? null : (toResultFormat(request.response_format) ?? 'none'),
  };
}

const NO_CHOICE: ToolChoice = { add: [], remove: [], only: null };

/**
 * Converts a choice of tools; null for none. What it leaves open is as in `shared`, the choice of its batch, whose lists stay
 * the same objects.
 */
export function toToolChoice(
  { tools, server_tools }: ToolsRequest,
  shared: ToolChoice | null = null,
): ToolChoice | null {
  if (tools == null && server_tools == null) return shared;
  const { server_tools: sharedServerTools, ...named } = shared ?? NO_CHOICE;
  const chosen = server_tools ?? sharedServerTools;
  return {
    ...(tools == null
      ? named
      : { add: tools.add ?? [], remove: tools.remove ?? [], only: tools.only ?? null }),
    ...(chosen === undefined ? {} : { server_tools: chosen }),
  };
}

function toClientTool(tool: ClientTool): ToolDefinition {
  return {
    name: tool.name,
    kind: 'client',
    description: tool.description ?? '',
    input_schema: (tool.parameters ?? { type: 'object' }) as JsonObject,
    // The caller carries out the call and decides about its repetition.
    side_effects: 'none',
    return_char_limit: 50_000,
    timeout_ms: 60_000,
    requires_approval: false,
  };
}

/** Converts the caps of a batch or request. */
export function toCap(input: CapRequest): Cap {
  return {
    cost_nanousd: input.max_cost_usd == null ? null : nanoUsdOf(input.max_cost_usd),
    output_tokens: input.max_output_tokens ?? null,
  };
}

/** Returns the messages of a request; `input` becomes one user message. */
export function toMessages(request: InputRequest): readonly InputMessage[] {
  if (request.input != null) {
    return [{ role: 'user', content: toBlocks(request.input), otid: null, name: null }];
  }
  return (request.messages ?? []).map((message) => ({
    role: message.role,
    content: toBlocks(message.content),
    otid: message.otid ?? null,
    name: message.name ?? null,
  }));
}

/** Converts content to the provider's blocks, without fields that only Letta knows and without lone surrogates. */
function toBlocks(content: Content): readonly ContentBlock[] {
  if (typeof content === 'string') return [{ type: 'text', text: content.toWellFormed() }];
  return content.map((part) => {
    if (part.type === 'text') return { type: 'text', text: part.text.toWellFormed() };
    const { source } = part;
    if (source.type === 'url') {
      return { type: 'image', source: { type: source.type, url: source.url.toWellFormed() } };
    }
    const media_type = source.media_type.toWellFormed();
    return { type: 'image', source: { type: source.type, media_type, data: source.data.toWellFormed() } };
  });
}
