import { readRun } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { runResponse } from '../../schemas/run.ts';
import { cancelRuns } from '../batches/cancel-runs.ts';
import { answerRun } from './answer-runs.ts';

/** Cancels one run. An ended run does not change. */
export function cancelRun(app: App, context: Context): void {
  app.post(
    '/v1/runs/:run_id/cancel',
    {
      schema: {
        operationId: 'cancelRun',
        summary: 'Cancel a run',
        description:
          'The run takes no further step. If it waits, it ends at once. If a request of it is at the provider, or a tool ' +
          'call under way, it ends when the answer or result arrives; a paid answer is stored. An ended run does not ' +
          'change. Beyond Letta.',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        response: { 200: runResponse, ...problems },
      },
    },
    async (request) => {
      const { run_id } = request.params;
      const { batch_id, ended_at } = await readRun(context.db, context.projectId, run_id);
      if (ended_at === null) await cancelRuns(context, batch_id, { run_ids: [run_id] });
      return answerRun(context, run_id);
    },
  );
}
