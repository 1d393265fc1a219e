import { pauseBatch as pause, resumeBatch as resume } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { wireId } from '../../schemas/ids.ts';
import { readShownBatch } from './shown-batch.ts';

/** Pauses a batch until it is resumed. A second pause is no error. */
export function pauseBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/pause`,
    {
      schema: {
        operationId: 'pauseBatch',
        summary: 'Pause a batch',
        description:
          'Sends no new step. Answers to requests that the provider has begun are stored. Only a resume continues the ' +
          'batch, even if its caps are raised.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        headers: idempotencyHeaders,
        response: { 200: batchResponse, ...problems },
      },
    },
    (request, reply) => {
      const { job_id } = request.params;
      const reason = 'Paused by request; resume it to continue.';
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) => {
          await pause(trx, context.projectId, job_id, reason);
          return {};
        },
        show: async () => (await readShownBatch(context, job_id)).batch,
      });
    },
  );
}

/** Resumes a paused batch. Resuming a running batch is no error. */
export function resumeBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/resume`,
    {
      schema: {
        operationId: 'resumeBatch',
        summary: 'Resume a paused batch',
        description: 'A batch that still has no room under its cap pauses again before it sends anything.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        headers: idempotencyHeaders,
        response: { 200: batchResponse, ...problems },
      },
    },
    (request, reply) => {
      const { job_id } = request.params;
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) => ({ queued: await resume(trx, context.projectId, job_id) }),
        show: async ({ queued }) => {
          if (queued > 0) await context.bell.ring([{ kind: 'compose', id: '*' }]);
          return (await readShownBatch(context, job_id)).batch;
        },
      });
    },
  );
}
