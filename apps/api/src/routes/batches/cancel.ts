import { inTransaction, requestBatchCancel } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { wireId } from '../../schemas/ids.ts';
import { readShownBatch } from './shown-batch.ts';

/** Requests the cancellation of a batch. An ended batch is no error, because Letta's client would retry it. */
export function cancelBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.patch(
    `${path}/:job_id/cancel`,
    {
      schema: {
        operationId: 'cancelBatch',
        summary: 'Cancel a batch',
        description:
          'Sends no new step. Requests that the provider has begun are paid and stored. An ended batch does not change.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      const asked = await inTransaction(context.db, (trx) =>
        requestBatchCancel(trx, context.projectId, job_id),
      );
      if (asked) await context.bell.ring([{ kind: 'cancel', id: job_id }]);
      return (await readShownBatch(context, job_id)).batch;
    },
  );
}
