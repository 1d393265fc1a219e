import { createHash } from 'node:crypto';
import { inTransaction, readNow } from '@nightshift/db';
import { storeRetry } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse } from '../../schemas/batch.ts';
import { wireId } from '../../schemas/ids.ts';
import { retryInput } from '../../schemas/retry.ts';
import { idempotencyOf } from './idempotency.ts';
import { answerStored, storeOnce } from './once.ts';

/** Tries ended runs of a batch again, in a new batch. */
export function retryBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/:job_id/retry`,
    {
      schema: {
        operationId: 'retryBatch',
        summary: 'Try failed runs of a batch again',
        description:
          'Makes a batch of the failed and expired runs, or of the ended runs that match all given fields, with their ' +
          '`custom_id`s and inputs, in their order. Runs that are still open, or that another retry took, are left out. ' +
          'Options that are not given are those of the batch, except `deadline` and `pilot`; null is none. To repeat the ' +
          'request safely, send an `Idempotency-Key` header. Beyond Letta.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        headers: idempotencyHeaders,
        body: retryInput.nullish(),
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request, reply) => {
      const { job_id } = request.params;
      const { db, projectId } = context;
      const body = request.body ?? {};
      const request_sha256 = createHash('sha256')
        .update(JSON.stringify([job_id, body]))
        .digest('hex');
      const idempotency = idempotencyOf(request, request_sha256);
      const now = await readNow(db);
      const made = await inTransaction(db, (trx) =>
        storeOnce(trx, projectId, idempotency, now, (idempotency) =>
          storeRetry(trx, projectId, job_id, body, { now, idempotency }),
        ),
      );
      return answerStored(context, reply, made);
    },
  );
}
