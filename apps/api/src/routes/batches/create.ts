import { inTransaction, readNow } from '@nightshift/db';
import { BATCH_BYTES_MAX, prepareBatch } from '@nightshift/intake';
import { holdMore, keepShareUntil } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { elapsedMs } from '../../large-bodies/handed-over.ts';
import { createJsonParser } from '../../parse-json.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { problems } from '../../schemas/answers.ts';
import { batchInput, batchResponse, toBatchRequest } from '../../schemas/batch.ts';
import { uploadOf } from '../../uploads/line-upload.ts';
import { acceptOnce } from './accept-once.ts';
import { createFromLines } from './create-from-lines.ts';
import { idempotencyOf } from './idempotency.ts';
import { answerStored } from './once.ts';

/** Accepts a batch in one transaction and answers at once, or receives it line by line. */
export function createBatch(app: App, context: Context, path: string, hide: boolean): void {
  const parse = createJsonParser(app);
  app.post(
    path,
    {
      bodyLimit: BATCH_BYTES_MAX,
      config: { takesLines: 'in_portions' },
      preValidation: async (request, reply) => {
        const upload = uploadOf(request);
        if (upload === undefined) return;
        const made = createFromLines(context, parse, { request, reply, upload });
        keepShareUntil(request, made);
        return reply.send(await answerStored(context, reply, await made));
      },
      schema: {
        operationId: 'createBatch',
        summary: 'Submit a batch',
        description:
          'Every request becomes a run of its agent, and so does every input of a template. The batch is stored only if ' +
          'all are valid. To repeat it safely, send an `Idempotency-Key` header: for a day, the same key and body return ' +
          'the same batch. As `application/jsonl` or `application/x-ndjson`, plain, gzip or zstd, it takes up to a million ' +
          'requests, one a line; the first line may be `{"batch": {…}}` with all other fields.',
        tags: ['batches'],
        hide,
        headers: idempotencyHeaders,
        body: batchInput,
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request, reply) => {
      const idempotency = idempotencyOf(request);
      const now = await readNow(context.db);
      const arrivedAt = new Date(now.getTime() - elapsedMs(reply));
      const prepared = await prepareBatch(toBatchRequest(request.body), (bytes) => holdMore(request, bytes));
      const made = await inTransaction(context.db, (trx) =>
        acceptOnce(trx, context, { prepared, now, arrivedAt }, idempotency),
      );
      return answerStored(context, reply, made);
    },
  );
}
