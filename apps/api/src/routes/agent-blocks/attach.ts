import { attachBlock, detachBlock, inTransaction, readAgent, type Tx } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { agentState } from '../../schemas/agent.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { readAgentState } from '../../wire/to-agent-state.ts';

interface Attachment {
  readonly action: 'attach' | 'detach';
  readonly operationId: string;
  readonly summary: string;
  readonly commit: (trx: Tx, projectId: string, agentId: string, blockId: string) => Promise<void>;
}

const ATTACHMENTS: readonly Attachment[] = [
  { action: 'attach', operationId: 'attachBlock', summary: 'Give an agent a block', commit: attachBlock },
  {
    action: 'detach',
    operationId: 'detachBlock',
    summary: 'Take a block from an agent',
    commit: detachBlock,
  },
];

/** Attaches or detaches a block. Answers the updated agent. */
export function attachAndDetachBlock(app: App, context: Context): void {
  for (const { action, operationId, summary, commit } of ATTACHMENTS) {
    app.patch(
      `/v1/agents/:agent_id/core-memory/blocks/${action}/:block_id`,
      {
        schema: {
          operationId,
          summary,
          tags: ['agents'],
          params: z.object({ agent_id: wireId('agent'), block_id: wireId('block') }),
          response: { 200: agentState, ...problems },
        },
      },
      async (request) => {
        const { agent_id, block_id } = request.params;
        await inTransaction(context.db, (trx) => commit(trx, context.projectId, agent_id, block_id));
        return readAgentState(context.db, await readAgent(context.db, context.projectId, agent_id));
      },
    );
  }
}
