import {
  modelTraits,
  parseModelHandle,
  toStorableText,
  type ToolChoice,
  type ToolDefinition,
} from '@nightshift/agent-core';
import type { Added, RequestedDefinition } from '../../reads/catalog/agent-definitions.ts';
import { storableJson, storableText } from '../json-rows.ts';
import type { NewRun } from './new-batch.ts';

/** Returns the requested definitions of runs, in order. Neighbours with equal additions are serialized once. */
export function requestedDefinitions(runs: readonly NewRun[]): readonly RequestedDefinition[] {
  const known = new Map<string, Added>();
  let last: { readonly additions: Additions; readonly request: RequestedDefinition } | null = null;
  return runs.map((run) => {
    const { agent_id } = run;
    const additions = additionsOf(run);
    const alike = last !== null && areAlike(last.additions, additions) ? last.request : null;
    if (alike?.agent_id === agent_id) return alike;
    const added = alike?.added ?? addedBy(additions, known);
    const request = { key: `${agent_id} ${added.place}`, agent_id, added };
    last = { additions, request };
    return request;
  });
}

type Additions = ReturnType<typeof additionsOf>;

function additionsOf({
  client_tools = NO_TOOLS,
  result_format: format = null,
  model = null,
  system = null,
  tools = null,
  memory_tools_only = false,
  writable_labels = null,
}: NewRun) {
  return { client_tools, format, model, system, tools, memory_tools_only, writable_labels };
}

function areAlike(one: Additions, other: Additions): boolean {
  return (
    one.client_tools === other.client_tools &&
    one.format === other.format &&
    one.model === other.model &&
    one.system === other.system &&
    one.tools === other.tools &&
    one.memory_tools_only === other.memory_tools_only &&
    one.writable_labels === other.writable_labels
  );
}

function addedBy(additions: Additions, known: Map<string, Added>): Added {
  const { client_tools, format, model, system, tools, memory_tools_only, writable_labels } = additions;
  const content = {
    client_tools_json: client_tools.length === 0 ? null : storableJson(client_tools),
    result_format_json: format === null || format === 'none' ? format : storableJson(format),
    model,
    ...thinkingOf(model),
    system: storableText(system),
    tool_choice_json: tools === null ? null : choiceJson(tools),
    memory_tools_only,
    writable_labels:
      writable_labels === null ? null : [...new Set(writable_labels.map(toStorableText))].sort(),
  };
  const key = JSON.stringify(content);
  const added = known.get(key) ?? { place: known.size, ...content };
  known.set(key, added);
  return added;
}

/** Returns the same JSON for equal choices; the order of `add` is that of the tools. */
function choiceJson({ add, remove, only, server_tools }: ToolChoice): string {
  const named = { add, remove: [...remove].sort(), only: only === null ? null : [...only].sort() };
  return storableJson(server_tools === undefined ? named : { ...named, server_tools });
}

/** Returns the forms of thinking that a model takes; all of them without a model, whose agent keeps its settings. */
function thinkingOf(model: string | null) {
  if (model === null) return { takes_budget: true, takes_adaptive: true, thinks_always: false };
  const traits = modelTraits(parseModelHandle(model)?.name ?? model);
  return {
    takes_budget: traits.takes_thinking_budget,
    takes_adaptive: traits.takes_adaptive_thinking,
    thinks_always: traits.thinks_always,
  };
}

const NO_TOOLS: readonly ToolDefinition[] = [];

/** Removes duplicate requests. */
export function distinctDefinitions(
  requests: readonly RequestedDefinition[],
): readonly RequestedDefinition[] {
  return [...new Map(requests.map((request) => [request.key, request])).values()];
}
