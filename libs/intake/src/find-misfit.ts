import {
  checkRequiredTools,
  checkRulesFit,
  checkServerTools,
  FINISH_TOOL,
  parseToolRules,
  type FieldError,
  type ToolChoice,
} from '@nightshift/agent-core';
import type { RunAgent } from '@nightshift/db';

type DoubtedDefinition = NonNullable<RunAgent['doubts']>;

/**
 * Finds the first reason why the tools of a definition do not fit each other or the choice of tools; null if they fit.
 * `shared`: the choice of the batch. Paths begin at the request.
 */
export function findMisfit(
  definition: DoubtedDefinition,
  choice: ToolChoice | null,
  shared: ToolChoice | null,
): FieldError | null {
  const isShared = choice?.add === shared?.add;
  const hasOwnServerTools =
    choice?.server_tools !== undefined && choice.server_tools !== shared?.server_tools;
  return (
    missingOf(choice, definition, isShared) ??
    serverToolMisfitOf(definition, hasOwnServerTools) ??
    ruleMisfitOf(choice, definition, isShared) ??
    duplicateOf(definition)
  );
}

function serverToolMisfitOf(
  { tool_rules, tools, server_tools }: DoubtedDefinition,
  hasOwnServerTools: boolean,
): FieldError | null {
  if (server_tools == null) return null;
  const misfit = checkServerTools(server_tools, tools, parseToolRules(tool_rules).given)[0];
  if (misfit === undefined) return null;
  return hasOwnServerTools && misfit.path.startsWith('/server_tools')
    ? misfit
    : { path: '/agent_id', message: `has tools that do not fit: ${misfit.path} ${misfit.message}` };
}

/** Finds a tool that a choice names and its definition lacks. */
function missingOf(
  choice: ToolChoice | null,
  { tools }: DoubtedDefinition,
  isShared: boolean,
): FieldError | null {
  if (choice === null) return null;
  const { add, only } = choice;
  const names = new Set(tools.filter(({ kind }) => kind !== 'client').map(({ name }) => name));
  const list = only === null ? 'add' : 'only';
  const place = (only ?? add).findIndex((name) => !names.has(name));
  const name = (only ?? add)[place];
  if (name === undefined) return null;
  if (isShared)
    return {
      path: '/agent_id',
      message: `lacks the tool '${name}', which tools/${list} of the batch names.`,
    };
  const message = `names '${name}', which neither the agent nor tools/add has: add the tool, or drop the name.`;
  return { path: `/tools/${list}/${place}`, message };
}

function ruleMisfitOf(
  choice: ToolChoice | null,
  { tool_rules, tools, result_format }: DoubtedDefinition,
  isShared: boolean,
): FieldError | null {
  const rules = parseToolRules(tool_rules).given;
  const owed = result_format == null ? null : FINISH_TOOL.name;
  const names = tools.map(({ name }) => name);
  const problem =
    checkRulesFit(rules, tools)[0] ??
    // An agent's own tools were checked when it was stored.
    (choice === null ? undefined : checkRequiredTools(rules, names, owed)[0]);
  if (problem === undefined) return null;
  return choice === null || isShared
    ? { path: '/agent_id', message: `has unusable tool rules: ${problem.path}: ${problem.message}` }
    : { path: '/tools', message: `leave unusable tool rules: ${problem.path}: ${problem.message}` };
}

/** Finds a tool with the name of an earlier tool. */
function duplicateOf({ tools }: DoubtedDefinition): FieldError | null {
  const names = new Set<string>();
  const duplicate = tools.find(({ name }) => names.size === names.add(name).size);
  if (duplicate === undefined) return null;
  const message = `has a duplicate tool '${duplicate.name}': the agent, or the request itself, has a tool of that name.`;
  return { path: '/client_tools', message };
}
