import type { ToolDefinition } from '@nightshift/agent-core';
import type { Added, RequestedDefinition } from '../../reads/catalog/agent-definitions.ts';
import { storableJson } from '../json-rows.ts';
import type { NewRun } from './new-batch.ts';

/** Returns the requested definitions of runs, in order. Neighbours with equal additions are serialized once. */
export function requestedDefinitions(runs: readonly NewRun[]): readonly RequestedDefinition[] {
  const known = new Map<string, Added>();
  let last: {
    readonly tools: unknown;
    readonly format: unknown;
    readonly request: RequestedDefinition;
  } | null = null;
  return runs.map(({ agent_id, client_tools: tools = NO_TOOLS, result_format: format = null }) => {
    const alike = last !== null && last.tools === tools && last.format === format ? last.request : null;
    if (alike?.agent_id === agent_id) return alike;
    const added = alike?.added ?? addedBy(tools, format, known);
    const request = { key: `${agent_id} ${added.place}`, agent_id, added };
    last = { tools, format, request };
    return request;
  });
}

function addedBy(
  tools: readonly ToolDefinition[],
  format: NonNullable<NewRun['result_format']> | null,
  known: Map<string, Added>,
): Added {
  const client_tools_json = tools.length === 0 ? null : storableJson(tools);
  const result_format_json = format === null || format === 'none' ? format : storableJson(format);
  const key = `${client_tools_json ?? ''} ${result_format_json ?? ''}`;
  const added = known.get(key) ?? { place: known.size, client_tools_json, result_format_json };
  known.set(key, added);
  return added;
}

const NO_TOOLS: readonly ToolDefinition[] = [];

/** Removes duplicate requests. */
export function distinctDefinitions(
  requests: readonly RequestedDefinition[],
): readonly RequestedDefinition[] {
  return [...new Map(requests.map((request) => [request.key, request])).values()];
}
