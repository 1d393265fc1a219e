import { attachTool, detachTool, inTransaction, type Tx } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { assertServerToolsFit } from '../agents/rules-fit.ts';

interface Attachment {
  readonly action: 'attach' | 'detach';
  readonly operationId: string;
  readonly summary: string;
  readonly commit: (trx: Tx, projectId: string, agentId: string, toolId: string) => Promise<void>;
}

const ATTACHMENTS: readonly Attachment[] = [
  { action: 'attach', operationId: 'attachTool', summary: 'Give an agent a tool', commit: attachTool },
  { action: 'detach', operationId: 'detachTool', summary: 'Take a tool from an agent', commit: detachTool },
];

/** Attaches or detaches a tool. Answers null, as Letta does to its 1.x clients. */
export function attachAndDetachTool(app: App, context: Context): void {
  for (const { action, operationId, summary, commit } of ATTACHMENTS) {
    app.patch(
      `/v1/agents/:agent_id/tools/${action}/:tool_id`,
      {
        schema: {
          operationId,
          summary,
          tags: ['agents'],
          params: z.object({ agent_id: wireId('agent'), tool_id: wireId('tool') }),
          response: { 200: nullAnswer, ...problems },
        },
      },
      async (request) => {
        const { agent_id, tool_id } = request.params;
        await inTransaction(context.db, async (trx) => {
          await commit(trx, context.projectId, agent_id, tool_id);
          if (action === 'attach') await assertServerToolsFit(trx, context.projectId, agent_id);
        });
        return null;
      },
    );
  }
}
