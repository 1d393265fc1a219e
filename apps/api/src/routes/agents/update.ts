import { NightshiftError, type PriceTable } from '@nightshift/agent-core';
import {
  changeAgent,
  inTransaction,
  lockAgent,
  readAgent,
  type AgentChange,
  type AgentRow,
} from '@nightshift/db';
import { toResultFormat } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { agentPatch, agentState, type AgentPatch } from '../../schemas/agent.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { toCompactionPolicy } from '../../wire/compaction.ts';
import { readAgentState } from '../../wire/to-agent-state.ts';
import { replaceAgentSecrets, secretsOf } from './agent-secrets.ts';
import { assertBlocksFit } from './block-choice.ts';
import { echoedOf, responseFormatOf } from './echoed.ts';
import { contextWindowOf, modelOf, modelSettingsOf } from './model-choice.ts';
import { assertApprovalsMeanTools, assertRulesFit, assertServerToolsFit } from './rules-fit.ts';
import { assertTimeZone } from './time-zone.ts';
import { chooseTools } from './tool-choice.ts';

/**
 * Changes an agent. Its definition changes for later batches only; blocks and other settings change at once. As in Letta, null
 * changes nothing and lists replace.
 */
export function updateAgent(app: App, context: Context): void {
  app.patch(
    '/v1/agents/:agent_id',
    {
      // Its secrets.
      config: { hidesBody: true },
      schema: {
        operationId: 'updateAgent',
        summary: 'Change an agent',
        description:
          'Applies to batches accepted from now on. Runs in progress use its new blocks and timezone from their next ' +
          'step, and its message_buffer_autoclear when they end. null changes nothing; lists replace.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        body: agentPatch,
        response: { 200: agentState, ...problems },
      },
    },
    async (request) => {
      const { agent_id } = request.params;
      const { body } = request;
      await inTransaction(context.db, async (trx) => {
        // Lock the agent first: the unchanged fields are written back.
        await lockAgent(trx, context.projectId, agent_id);
        const present = await readAgent(trx, context.projectId, agent_id);
        if (body.tool_ids != null) {
          await chooseTools(trx, context.projectId, { base: [], names: [], ids: body.tool_ids });
        }
        await assertApprovalsMeanTools(trx, context.projectId, body.tool_rules ?? [], present.tool_rules);
        if (body.block_ids != null) await assertBlocksFit(trx, context.projectId, [], body.block_ids);
        await changeAgent(trx, context.projectId, agent_id, toChange(body, present, context.prices));
        const secrets = secretsOf(body);
        if (secrets !== null) await replaceAgentSecrets(context, trx, agent_id, secrets);
        await assertServerToolsFit(trx, context.projectId, agent_id);
        if (body.tool_rules != null) await assertRulesFit(trx, context.projectId, agent_id, 'tool_rules');
        else if (body.tool_ids != null) await assertRulesFit(trx, context.projectId, agent_id, 'tool_ids');
      });
      return readAgentState(context.db, await readAgent(context.db, context.projectId, agent_id));
    },
  );
}

function toChange(body: AgentPatch, present: AgentRow, prices: PriceTable): AgentChange {
  const model = modelOf(body, prices, present.model);
  const model_settings = modelSettingsOf(body, model ?? present.model, present.model_settings);
  const context_window_limit = contextWindowOf(body);
  const compaction = toCompactionPolicy(body.compaction_settings, model ?? present.model, present);
  const response_format = responseFormatOf(body);
  if (body.timezone != null) assertTimeZone(body.timezone);
  if (body.message_buffer_autoclear === false && present.agent_type === 'workflow_agent') {
    throw new NightshiftError('invalid_argument', 'A workflow_agent always clears its message buffer.', {
      fields: [{ path: '/message_buffer_autoclear', message: 'cannot be false for a workflow_agent' }],
    });
  }
  return {
    ...(body.name == null ? {} : { name: body.name }),
    ...(body.description == null ? {} : { description: body.description }),
    ...(body.system == null ? {} : { system: body.system }),
    ...(model === null ? {} : { model }),
    ...(model_settings === null ? {} : { model_settings }),
    ...(body.tool_rules == null ? {} : { tool_rules: body.tool_rules }),
    ...(body.metadata == null ? {} : { metadata: body.metadata }),
    ...(body.tags == null ? {} : { tags: [...new Set(body.tags)] }),
    ...(body.timezone == null ? {} : { timezone: body.timezone }),
    ...(body.message_buffer_autoclear == null
      ? {}
      : { message_buffer_autoclear: body.message_buffer_autoclear }),
    ...(context_window_limit === null ? {} : { context_window_limit }),
    ...(compaction === null ? {} : { compaction }),
    ...(response_format === null ? {} : { result_format: toResultFormat(response_format) }),
    ...(body.hidden == null ? {} : { hidden: body.hidden }),
    ...(body.server_tools == null
      ? {}
      : { server_tools: body.server_tools.length === 0 ? null : body.server_tools }),
    echoed: echoedOf(body, present.echoed),
    ...(body.block_ids == null ? {} : { block_ids: [...new Set(body.block_ids)] }),
    ...(body.tool_ids == null ? {} : { tool_ids: [...new Set(body.tool_ids)] }),
  };
}
