import { toWireId } from '@nightshift/agent-core';
import { forgetBatch, inTransaction } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { shownId, wireId } from '../../schemas/ids.ts';
import { BATCH_ID } from '../../schemas/examples/ids.ts';

const deletedBatch = z
  .object({ id: shownId('job'), deleted: z.literal(true) })
  .meta({ id: 'DeletedBatch', examples: [{ id: BATCH_ID, deleted: true }] });

/** Deletes an ended batch. Its rows are removed later, by workers. */
export function deleteBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.delete(
    `${path}/:job_id`,
    {
      schema: {
        operationId: 'deleteBatch',
        summary: 'Delete an ended batch',
        description:
          'Its runs, steps and isolated conversations are gone at once and are removed in the background. The agents keep ' +
          'their conversations and memory, cursors stay where they are, and its use stays in GET /v1/usage. An open callback ' +
          'is not sent. A batch that has not ended is refused: cancel it first. A retry cannot go before ' +
          'the batch that it retries. Beyond Letta.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        response: { 200: deletedBatch, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      await inTransaction(context.db, (trx) => forgetBatch(trx, context.projectId, job_id));
      return { id: toWireId('job', job_id), deleted: true as const };
    },
  );
}
