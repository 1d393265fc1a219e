import { toWireId } from '@nightshift/agent-core';
import type { ToolLimits, ToolRow } from '@nightshift/db';
import { USER_ID } from '../schemas/ids.ts';
import { TOOL_TYPES, type LimitsInput, type ToolResponse } from '../schemas/tool.ts';

/** Converts a stored tool to an answer. */
export function toToolResponse(tool: ToolRow): ToolResponse {
  return {
    id: toWireId('tool', tool.id),
    name: tool.name,
    tool_type: TOOL_TYPES.find((type) => type === tool.tool_type) ?? 'custom',
    description: tool.description,
    source_type: tool.source_type,
    source_code: tool.source_code,
    json_schema: { name: tool.name, description: tool.description, parameters: tool.input_schema },
    args_json_schema: null,
    tags: [...tool.tags],
    return_char_limit: tool.return_char_limit,
    pip_requirements: null,
    npm_requirements: null,
    default_requires_approval: tool.requires_approval,
    // All calls of a step run in parallel, except calls that must not happen twice.
    enable_parallel_execution: tool.side_effects !== 'once',
    metadata_: tool.metadata,
    kind: tool.kind,
    timeout_ms: tool.timeout_ms,
    network: [...(tool.source?.network ?? [])],
    secrets: [...(tool.source?.secrets ?? [])],
    http: tool.source?.http ?? null,
    limits: { concurrency: tool.concurrency, rate_per_minute: tool.rate_per_minute },
    mcp:
      tool.source?.mcp === undefined
        ? null
        : { ...tool.source.mcp, server_id: toWireId('mcp_server', tool.source.mcp.server_id) },
    side_effects: tool.side_effects,
    created_by_id: USER_ID,
    last_updated_by_id: USER_ID,
    project_id: null,
  };
}

/** Converts the limits of a request; an absent number is no limit. */
export function toToolLimits({ concurrency = null, rate_per_minute = null }: LimitsInput): ToolLimits {
  return { concurrency, rate_per_minute };
}
