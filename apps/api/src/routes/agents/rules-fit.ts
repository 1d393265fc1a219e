import {
  checkRequiredTools,
  checkRulesFit,
  checkServerTools,
  FINISH_TOOL,
  isJsonObject,
  NightshiftError,
  parseToolRules,
  toStorableText,
  type ToolRule,
} from '@nightshift/agent-core';
import { findTools, readAgent, readToolsOfAgents, type AgentRow, type Tx } from '@nightshift/db';
import { isBuiltIn } from './tool-choice.ts';

const APPROVAL = 'requires_approval';

/**
 * Checks that an agent, as it stands in this transaction, can run by its tool rules. `changed` holds the changed fields, to
 * name them in the error.
 * Throws: `validation_failed`.
 */
export async function assertRulesFit(
  trx: Tx,
  projectId: string,
  agentId: string,
  changed: 'tool_rules' | 'tool_ids',
): Promise<void> {
  const { tool_rules, echoed } = await readAgent(trx, projectId, agentId);
  if (tool_rules.length === 0) return;
  const rules = parseToolRules(tool_rules).given;
  const tools = await readToolsOfAgents(trx, [agentId]);
  const names = tools.map(({ name }) => name);
  const misfits = [
    ...checkRulesFit(rules, tools),
    ...checkRequiredTools(rules, names, owesResult(echoed) ? FINISH_TOOL.name : null),
  ];
  const fields =
    changed === 'tool_rules'
      ? misfits
      : misfits.map(({ path, message }) => ({
          path: '/tool_ids',
          message: `leave the agent with unusable tool rules: ${path}: ${message}`,
        }));
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('validation_failed', `${first.path}: ${first.message}`, { fields });
  }
}

/**
 * Checks that no tool or tool rule of an agent, as it stands in this transaction, clashes with its server tools.
 * Throws: `validation_failed`.
 */
export async function assertServerToolsFit(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const { tool_rules, server_tools } = await readAgent(trx, projectId, agentId);
  if (server_tools === null) return;
  const tools = await readToolsOfAgents(trx, [agentId]);
  const fields = checkServerTools(server_tools, tools, parseToolRules(tool_rules).given);
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('validation_failed', `${first.path} ${first.message}.`, { fields });
  }
}

function owesResult({ response_format: format }: AgentRow['echoed']): boolean {
  return isJsonObject(format) && format['type'] !== 'text';
}

/**
 * Checks that every new approval rule names an existing tool, because a misspelt name would leave the real tool unprotected.
 * The agent need not have the tool yet. Rules in `present` pass: their tool may have been deleted since.
 * Throws: `validation_failed`.
 */
export async function assertApprovalsMeanTools(
  trx: Tx,
  projectId: string,
  rules: readonly ToolRule[],
  present: AgentRow['tool_rules'] = [],
): Promise<void> {
  const kept = new Set(present.filter(({ type }) => type === APPROVAL).map(({ tool_name }) => tool_name));
  const named = rules.flatMap(({ type, tool_name }, index) =>
    type === APPROVAL && !kept.has(tool_name) && !isBuiltIn(tool_name) ? [{ index, tool_name }] : [],
  );
  const names = named.map(({ tool_name }) => toStorableText(tool_name));
  const known = new Set((await findTools(trx, projectId, { ids: [], names })).map(({ name }) => name));
  const fields = named
    .filter(({ tool_name }) => !known.has(tool_name))
    .map(({ index, tool_name }) => ({
      path: `/tool_rules/${index}/tool_name`,
      message:
        `there is no tool named '${tool_name}'; use a name from GET /v1/tools/, or drop the rule: calls of client tools ` +
        'always wait for their caller',
    }));
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('validation_failed', `${first.path}: ${first.message}.`, { fields });
  }
}
