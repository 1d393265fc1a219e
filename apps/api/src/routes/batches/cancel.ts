import { inTransaction, readBatch, requestBatchCancel } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { wireId } from '../../schemas/ids.ts';
import { toBatchResponse } from '../../wire/to-batch.ts';

/** Asks for a cancellation. A batch that has ended stays as it is: that is no error, and Letta's client would retry one. */
export function cancelBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.patch(
    `${path}/:job_id/cancel`,
    {
      schema: {
        operationId: 'cancelBatch',
        summary: 'Cancel a batch',
        description:
          'No new step is sent; what the provider has begun is paid for and stored. Ended batches do not change.',
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
      return toBatchResponse(await readBatch(context.db, context.projectId, job_id));
    },
  );
}
