import { listOf, toWireId } from '@nightshift/agent-core';
import { revertBatch as commitRevert, type RevertedBlock, type RevertReport } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { revertReport } from '../../schemas/memory.ts';
import { AGENT_ID } from '../../schemas/examples/ids.ts';

function toWireBlock<Block extends RevertedBlock>(
  block: Block,
): { readonly [Name in keyof Block]: Block[Name] } {
  return { ...block, block_id: toWireId('block', block.block_id) };
}

/** The report on the wire; without content, so that it may be stored with a key. */
function toWire({ restored, deleted, forced, renamed, attached, refused, passages }: RevertReport) {
  return {
    restored: restored.map(toWireBlock),
    deleted: deleted.map(toWireBlock),
    forced: forced.map(toWireBlock),
    renamed: renamed.map(toWireBlock),
    attached: attached.map((block) => ({
      ...toWireBlock(block),
      agent_id: toWireId('agent', block.agent_id),
    })),
    refused: refused.map(toWireBlock),
    passages,
  };
}

const revertInput = z
  .strictObject({
    force: z.boolean().default(false).describe('True: overwrite later edits by others.'),
    agent_ids: listOf(wireId('agent'), 10_000)
      .min(1)
      .nullish()
      .describe('Agents of the batch; only their changes are reverted. Default: all.'),
    block_ids: listOf(wireId('block'), 10_000)
      .min(1)
      .nullish()
      .describe('Blocks that the batch changed; only they are reverted, and no passages. Default: all.'),
  })
  .meta({ id: 'BatchRevert', examples: [{ agent_ids: [AGENT_ID] }] });

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
        headers: idempotencyHeaders,
        body: revertInput.nullish(),
        response: { 200: revertReport, ...problems },
      },
    },
    (request, reply) => {
      const { job_id } = request.params;
      const { force = false, agent_ids = null, block_ids = null } = request.body ?? {};
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) =>
          toWire(await commitRevert(trx, context.projectId, job_id, force, { agent_ids, block_ids })),
        show: (report) => report,
      });
    },
  );
}
