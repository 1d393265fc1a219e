import {
  checkRulesFit,
  NightshiftError,
  parseToolRules,
  type Definition,
  type ToolDefinition,
} from '@nightshift/agent-core';
import type { Added, DefinitionWish } from '../reads/agent-definitions.ts';
import { storableJson } from './json-rows.ts';
import type { NewBatch, NewRun } from './new-batch.ts';

/** Throws `not_found`, naming the requests, for agents of which no wish is among the `known`, by key. */
export function assertAgentsExist(
  batch: Pick<NewBatch, 'shared_path'>,
  wishes: readonly DefinitionWish[],
  known: { has(key: string): boolean },
): void {
  const named = batch.shared_path == null ? wishes : wishes.slice(0, 1);
  const fields = named.flatMap(({ agent_id, key }, index) =>
    known.has(key)
      ? []
      : [{ path: `${pathOf(batch, index)}/agent_id`, message: `There is no agent agent-${agent_id}.` }],
  );
  const [first] = fields;
  if (first === undefined) return;
  const rest = fields.length === 1 ? '' : ` ${fields.length - 1} more are unknown.`;
  throw new NightshiftError('not_found', `${first.message}${rest} Nothing was stored.`, {
    fields: fields.slice(0, 100),
  });
}

/**
 * Throws `validation_failed`, naming the request, for one that could not make its first call: its agent may have lost a tool since
 * its rules were checked, and a client tool may have the name of one of its own. Better refused than paid for. `definitions` are
 * those of the runs, in their order; one that is left out fits.
 */
export function assertDefinitionsFit(
  batch: Pick<NewBatch, 'shared_path'>,
  definitions: readonly (Pick<Definition, 'id' | 'tool_rules' | 'tools'> | undefined)[],
): void {
  const checked = new Set<string>();
  for (const [index, definition] of definitions.entries()) {
    if (definition === undefined || checked.has(definition.id)) continue;
    checked.add(definition.id);
    assertDefinitionFits(batch, index, definition);
  }
}

/** `assertDefinitionsFit` for the run at `index` alone. */
export function assertDefinitionFits(
  batch: Pick<NewBatch, 'shared_path'>,
  index: number,
  { tool_rules, tools }: Pick<Definition, 'tool_rules' | 'tools'>,
): void {
  const [problem] = checkRulesFit(parseToolRules(tool_rules).given, tools);
  const twin = twinIn(tools);
  if (problem === undefined && twin === undefined) return;
  const path = `${pathOf(batch, index)}/${problem === undefined ? 'client_tools' : 'agent_id'}`;
  const message =
    problem === undefined
      ? `has a second tool '${twin?.name ?? ''}': the agent, or the request itself, has one of that name.`
      : `has tool rules that it cannot run by: ${problem.path}: ${problem.message}`;
  throw new NightshiftError('validation_failed', `${path} ${message} Nothing was stored.`, {
    fields: [{ path, message }],
  });
}

/** The first tool that has the name of one before it. */
function twinIn(tools: readonly ToolDefinition[]): ToolDefinition | undefined {
  const names = new Set<string>();
  return tools.find(({ name }) => names.size === names.add(name).size);
}

/** Where in the body a request stands. */
function pathOf({ shared_path }: Pick<NewBatch, 'shared_path'>, index: number): string {
  return shared_path ?? `/requests/${index}`;
}

/** The definitions that runs ask for, in their order. What neighbours share, as those of a template do, is written once. */
export function wishesOf(runs: readonly NewRun[]): readonly DefinitionWish[] {
  const known = new Map<string, Added>();
  let last: { readonly tools: unknown; readonly format: unknown; readonly wish: DefinitionWish } | null =
    null;
  return runs.map(({ agent_id, client_tools: tools = NO_TOOLS, result_format: format = null }) => {
    const alike = last !== null && last.tools === tools && last.format === format ? last.wish : null;
    if (alike?.agent_id === agent_id) return alike;
    const added = alike?.added ?? addedBy(tools, format, known);
    const wish = { key: `${agent_id} ${added.place}`, agent_id, added };
    last = { tools, format, wish };
    return wish;
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

/** Each wish once. */
export function distinctWishes(wishes: readonly DefinitionWish[]): readonly DefinitionWish[] {
  return [...new Map(wishes.map((wish) => [wish.key, wish])).values()];
}
