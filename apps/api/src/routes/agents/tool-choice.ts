import { FINISH_TOOL, isMemoryTool, NightshiftError, type ToolRule } from '@nightshift/agent-core';
import { findTools, registerMemoryTools, type ToolRow, type Tx } from '@nightshift/db';
import type { AgentType } from '../../schemas/agent.ts';

/** Letta's base tools by agent type. */
const BASE_TOOLS: Readonly<Record<AgentType, readonly string[]>> = {
  letta_v1_agent: ['conversation_search', 'memory_insert', 'memory_replace'],
  memgpt_v2_agent: ['send_message', 'conversation_search', 'memory_insert', 'memory_replace'],
  memgpt_agent: [
    ...['send_message', 'conversation_search', 'archival_memory_insert', 'archival_memory_search'],
    ...['core_memory_append', 'core_memory_replace', 'memory', 'memory_apply_patch'],
  ],
  sleeptime_agent: ['memory_insert', 'memory_replace', 'memory_rethink', 'memory_finish_edits'],
  react_agent: [],
  workflow_agent: [],
  split_thread_agent: [],
  voice_convo_agent: [],
  voice_sleeptime_agent: [],
};

const ALL_BASE_TOOLS: ReadonlySet<string> = new Set(Object.values(BASE_TOOLS).flat());
/** Base tools that end a run, under Letta's base rules. */
const ENDING_TOOLS: ReadonlySet<string> = new Set(['send_message', 'memory_finish_edits']);

/** Tells whether the name belongs to a built-in tool, deleted or not. */
export function isBuiltIn(name: string): boolean {
  return isMemoryTool(name) || name === FINISH_TOOL.name;
}

/** Returns the names of the default tools of an agent type. */
export function baseToolsOf(agentType: AgentType): readonly string[] {
  return BASE_TOOLS[agentType];
}

/**
 * Returns Letta's rules for the base tools in `names`: a run ends after a tool that speaks or finishes, and continues after the
 * others. Default for every agent type except `letta_v1_agent`. Tools with an explicit rule get none.
 */
export function baseRulesOf(
  agentType: AgentType,
  wanted: boolean | null,
  names: readonly string[],
  ownRules: readonly ToolRule[],
): readonly ToolRule[] {
  if (!(wanted ?? agentType !== 'letta_v1_agent')) return [];
  const said = new Set(
    ownRules
      .filter(({ type }) => type === 'exit_loop' || type === 'continue_loop')
      .map(({ tool_name }) => tool_name),
  );
  return names
    .filter((name) => ALL_BASE_TOOLS.has(name) && !said.has(name))
    .map((tool_name) => ({
      type: ENDING_TOOLS.has(tool_name) ? 'exit_loop' : 'continue_loop',
      tool_name,
      prompt_template: null,
    }));
}

/** The tools requested for an agent. */
export interface RequestedTools {
  /** Names of default built-in tools. */
  readonly base: readonly string[];
  readonly names: readonly string[];
  readonly ids: readonly string[];
}

/**
 * Returns the requested tools in order, without duplicates. Restores deleted built-in tools.
 * Throws: `invalid_argument`, as Letta does, for an unknown tool.
 */
export async function chooseTools(
  trx: Tx,
  projectId: string,
  requested: RequestedTools,
): Promise<readonly ToolRow[]> {
  const { ids } = requested;
  const names = [...requested.base, ...requested.names];
  let found = await findTools(trx, projectId, { names, ids });
  if (names.some((name) => isBuiltIn(name) && !found.some((tool) => tool.name === name))) {
    await registerMemoryTools(trx, projectId);
    found = await findTools(trx, projectId, { names, ids });
  }
  const byName = new Map(found.map((tool) => [tool.name, tool]));
  const byId = new Map(found.map((tool) => [tool.id, tool]));
  assertAllFound(
    '/tools',
    requested.names,
    byName,
    (name) =>
      `there is no tool named '${name}'; GET /v1/tools/ lists all tools. A deleted module tool returns when a worker ` +
      "starts; the workers' log names modules that could not be loaded",
  );
  assertAllFound('/tool_ids', ids, byId, (id) => `there is no tool tool-${id}`);
  const chosen = [...names.map((name) => byName.get(name)), ...ids.map((id) => byId.get(id))];
  return [...new Set(chosen.flatMap((tool) => tool ?? []))];
}

function assertAllFound(
  path: string,
  wanted: readonly string[],
  found: ReadonlyMap<string, ToolRow>,
  explain: (key: string) => string,
): void {
  const fields = wanted.flatMap((key, index) =>
    found.has(key) ? [] : [{ path: `${path}/${index}`, message: explain(key) }],
  );
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('invalid_argument', `${first.path}: ${first.message}.`, { fields });
  }
}
