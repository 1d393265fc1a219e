import { createAgents, putSecrets, readAgent, type NewAgent, type Tx } from '@nightshift/db';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { agentInput, agentState, type AgentInput } from '../../schemas/agent.ts';
import { problems } from '../../schemas/answers.ts';
import { readAgentState } from '../../wire/to-agent-state.ts';
import { sealAgentSecrets, secretsOf } from './agent-secrets.ts';
import { assertBlocksFit } from './block-choice.ts';
import { rulesOf, toNewAgent, toolsOf } from './new-agent.ts';
import { assertApprovalsMeanTools, assertRulesFit, assertServerToolsFit } from './rules-fit.ts';
import { chooseTools } from './tool-choice.ts';

/** Creates an agent with its conversation, new blocks and tools. */
export function createAgent(app: App, context: Context): void {
  app.post(
    '/v1/agents',
    {
      // Its secrets.
      config: { hidesBody: true },
      schema: {
        operationId: 'createAgent',
        summary: 'Create an agent',
        tags: ['agents'],
        headers: idempotencyHeaders,
        body: agentInput,
        response: { 200: agentState, ...problems },
      },
    },
    (request, reply) =>
      makeOnce(context, request, reply, {
        prepare: () => toNewAgent(request.body, context.prices),
        make: async (trx, agent) => {
          await storeAgent(trx, context, request.body, agent);
          return { id: agent.id };
        },
        show: async ({ id }) =>
          readAgentState(context.db, await readAgent(context.db, context.projectId, id)),
      }),
  );
}

async function storeAgent(trx: Tx, context: Context, body: AgentInput, agent: NewAgent): Promise<void> {
  const { projectId } = context;
  const tools = await chooseTools(trx, projectId, toolsOf(body));
  await assertBlocksFit(trx, projectId, agent.blocks, body.block_ids ?? []);
  const tool_ids = tools.map((tool) => tool.id);
  const tool_rules = rulesOf(body, tools);
  await assertApprovalsMeanTools(trx, projectId, body.tool_rules ?? []);
  await createAgents(trx, projectId, [{ ...agent, tool_ids, tool_rules }]);
  await putSecrets(trx, sealAgentSecrets(context, agent.id, secretsOf(body)));
  if (agent.server_tools != null) await assertServerToolsFit(trx, projectId, agent.id);
  if (tool_rules.length > 0) await assertRulesFit(trx, projectId, agent.id, 'tool_rules');
}
