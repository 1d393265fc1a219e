import { listOf } from '@nightshift/agent-core';
import { inTransaction, requestBatchCancel } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { errorGroup, RUN_IDS_MAX } from '../../schemas/failure.ts';
import { wireId } from '../../schemas/ids.ts';
import { cancelRuns } from './cancel-runs.ts';
import { readShownBatch } from './shown-batch.ts';
import { RUN_ID } from '../../schemas/examples/ids.ts';

const cancelInput = z
  .strictObject({
    run_ids: listOf(wireId('run'), RUN_IDS_MAX)
      .min(1, 'must not be empty')
      .nullish()
      .describe('Runs of the batch. Ended runs do not change.'),
    error_group: errorGroup
      .nullish()
      .describe('Open runs whose last attempt failed like this group, and that are tried again.'),
  })
  .refine(({ run_ids, error_group }) => run_ids == null || error_group == null, {
    error: 'must have at most one of run_ids and error_group',
  })
  .meta({ id: 'BatchCancel', examples: [{ run_ids: [RUN_ID] }] });

/** Cancels a batch, or some of its runs. */
export function cancelSome(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/cancel`,
    {
      schema: {
        operationId: 'cancelRunsOfBatch',
        summary: 'Cancel a batch, or some of its runs',
        description:
          'Without a body, the whole batch, like PATCH. With `run_ids` or `error_group`, these open runs alone: waiting runs ' +
          'end at once, the others when their answer or result arrives. Beyond Letta.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: cancelInput.nullish(),
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      const { run_ids, error_group } = request.body ?? {};
      if (run_ids != null) await cancelRuns(context, job_id, { run_ids });
      else if (error_group != null) await cancelRuns(context, job_id, { error_group });
      else if (await inTransaction(context.db, (trx) => requestBatchCancel(trx, context.projectId, job_id)))
        await context.bell.ring([{ kind: 'cancel', id: job_id }]);
      return (await readShownBatch(context, job_id)).batch;
    },
  );
}
