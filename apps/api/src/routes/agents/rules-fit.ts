import { checkRulesFit, NightshiftError, parseToolRules } from '@nightshift/agent-core';
import { readAgent, readToolsOfAgents, type Tx } from '@nightshift/db';

/** Throws `validation_failed` where an agent, as it stands in this transaction, could not run by its tool rules. */
export async function assertRulesFit(trx: Tx, projectId: string, agentId: string): Promise<void> {
  const { tool_rules } = await readAgent(trx, projectId, agentId);
  if (tool_rules.length === 0) return;
  const fields = checkRulesFit(parseToolRules(tool_rules).rules, await readToolsOfAgents(trx, [agentId]));
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('validation_failed', `${first.path}: ${first.message}`, { fields });
  }
}
