import { listOf, toWireId } from '@nightshift/agent-core';
import { inTransaction, revertBatch as commitRevert, type RevertedBlock } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { revertReport } from '../../schemas/memory.ts';

function toWire<Block extends RevertedBlock>(block: Block): Block {
  return { ...block, block_id: toWireId('block', block.block_id) };
}

/** Reverts the memory writes of a batch in one transaction. */
export function revertBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/revert`,
    {
      schema: {
        operationId: 'revertBatch',
        summary: 'Revert the memory writes of a batch',
        description:
          'Blocks with later edits by others are left unchanged and listed, unless `force` is set. Undone edits do not ' +
          'count, so revert the later batch first. The batch must have ended. Reverted texts are new revisions. With ' +
          "`agent_ids`, writes of the batch's other agents count as edits by others.",
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: z
          .strictObject({
            force: z.boolean().default(false).describe('True: overwrite later edits by others.'),
            agent_ids: listOf(wireId('agent'), 10_000)
              .min(1)
              .nullish()
              .describe('Agents of the batch; only their changes are reverted. Default: all.'),
            block_ids: listOf(wireId('block'), 10_000)
              .min(1)
              .nullish()
              .describe(
                'Blocks that the batch changed; only they are reverted, and no passages. Default: all.',
              ),
          })
          .nullish(),
        response: { 200: revertReport, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      const { force = false, agent_ids = null, block_ids = null } = request.body ?? {};
      const report = await inTransaction(context.db, (trx) =>
        commitRevert(trx, context.projectId, job_id, force, { agent_ids, block_ids }),
      );
      return {
        restored: report.restored.map(toWire),
        deleted: report.deleted.map(toWire),
        forced: report.forced.map(toWire),
        renamed: report.renamed.map(toWire),
        attached: report.attached.map((block) => ({
          ...toWire(block),
          agent_id: toWireId('agent', block.agent_id),
        })),
        refused: report.refused.map(toWire),
        passages: report.passages,
      };
    },
  );
}
