import { NightshiftError, type ToolRule } from '@nightshift/agent-core';
import { changeAgent, inTransaction, lockAgent, readAgent, readToolsOfAgents } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

const requiresApproval = z.boolean().nullish();

const approvalInput = z
  .strictObject({
    requires_approval: requiresApproval,
    body_requires_approval: requiresApproval.describe(
      "Same as requires_approval; the name in Letta's client 1.3.",
    ),
  })
  .meta({ id: 'ToolApproval', examples: [{ requires_approval: true }] });

/** Adds or removes the agent's tool rule `requires_approval`. As in Letta 1.x, the answer is `null`. */
export function updateToolApproval(app: App, context: Context): void {
  app.patch(
    '/v1/agents/:agent_id/tools/approval/:tool_name',
    {
      schema: {
        operationId: 'updateToolApproval',
        summary: 'Set whether calls of a tool need an approval',
        description:
          "Adds or removes the agent's tool rule `requires_approval`, for batches submitted from now on. Refused with " +
          '409 for a tool whose `default_requires_approval` is true.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent'), tool_name: z.string().min(1).max(64) }),
        querystring: z.strictObject({ requires_approval: requiresApproval }),
        body: approvalInput.nullish(),
        response: { 200: nullAnswer, ...problems },
      },
    },
    async ({ params: { agent_id, tool_name }, query, body }) => {
      const wanted = requestedValue([
        query.requires_approval,
        body?.requires_approval,
        body?.body_requires_approval,
      ]);
      await inTransaction(context.db, async (trx) => {
        // Lock the agent first: the unchanged rules are written back.
        await lockAgent(trx, context.projectId, agent_id);
        const { tool_rules } = await readAgent(trx, context.projectId, agent_id);
        const tool = (await readToolsOfAgents(trx, [agent_id])).find(({ name }) => name === tool_name);
        const others = tool_rules.filter(
          (rule) => rule['type'] !== 'requires_approval' || rule['tool_name'] !== tool_name,
        );
        const isSet = others.length < tool_rules.length;
        if (tool === undefined && (wanted || !isSet)) {
          throw new NightshiftError('not_found', `agent-${agent_id} has no tool named '${tool_name}'.`);
        }
        if (!wanted && tool?.requires_approval === true) {
          throw new NightshiftError(
            'conflict',
            `The tool '${tool_name}' needs approval for every agent. Change its default_requires_approval.`,
          );
        }
        if (wanted === isSet) return;
        const rule: ToolRule = { type: 'requires_approval', tool_name, prompt_template: null };
        await changeAgent(trx, context.projectId, agent_id, {
          tool_rules: wanted ? [...tool_rules, rule] : others,
        });
      });
      return null;
    },
  );
}

/**
 * Returns the value given in the query or the body.
 * Throws: `validation_failed` if the value is missing or given twice with different values.
 */
function requestedValue(given: readonly (boolean | null | undefined)[]): boolean {
  const [wanted, ...more] = new Set(given.filter((value) => value != null));
  if (wanted !== undefined && more.length === 0) return wanted;
  const message = wanted === undefined ? 'is missing' : 'is given twice with different values';
  throw new NightshiftError('validation_failed', `/requires_approval ${message}.`, {
    fields: [{ path: '/requires_approval', message }],
  });
}
