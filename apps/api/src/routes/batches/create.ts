import { NightshiftError } from '@nightshift/agent-core';
import {
  findBatchOfRetry,
  findIdempotentBatch,
  inTransaction,
  lockIdempotencyKey,
  newId,
  readBatch,
  readNow,
  type NewRun,
  type Tx,
} from '@nightshift/db';
import { acceptBatch, BATCH_BYTES_MAX, requestedRuns, toCap } from '@nightshift/intake';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { elapsedMs } from '../../large-bodies/handed-over.ts';
import { problems } from '../../schemas/answers.ts';
import { batchInput, batchResponse, type BatchInput } from '../../schemas/batch.ts';
import { toBatchResponse } from '../../wire/to-batch.ts';
import { idempotencyHeaders, idempotencyOf, type Idempotency } from './idempotency.ts';

/** Accepts a batch in one transaction and answers at once. */
export function createBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    path,
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'createBatch',
        summary: 'Submit a batch',
        description:
          'Every request becomes a run of its agent, and so does every input of a template. The batch is stored only if ' +
          'all are valid. To repeat it safely, send an `Idempotency-Key` header: for a day, the same key and body return ' +
          'the same batch.',
        tags: ['batches'],
        hide,
        headers: idempotencyHeaders,
        body: batchInput,
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const idempotency = idempotencyOf(request);
      const now = await readNow(context.db);
      const arrivedAt = new Date(now.getTime() - elapsedMs(reply));
      const runs = await requestedRuns(body, (bytes) => holdMore(request, bytes));
      const made = await inTransaction(context.db, (trx) =>
        acceptOnce(trx, context, { body, runs, now, arrivedAt }, idempotency),
      );
      if (made.ready > 0) await context.bell.ring([{ kind: 'compose', id: '*' }]);
      if (made.replayed) void reply.header('idempotent-replayed', 'true');
      return toBatchResponse(await readBatch(context.db, context.projectId, made.batch_id));
    },
  );
}

interface CreateRequest {
  readonly body: BatchInput;
  readonly runs: readonly NewRun[];
  readonly now: Date;
  readonly arrivedAt: Date;
}

interface CreateResult {
  readonly batch_id: string;
  readonly ready: number;
  readonly replayed: boolean;
}

async function acceptOnce(
  trx: Tx,
  { projectId, prices }: Pick<Context, 'projectId' | 'prices'>,
  { body, runs, now, arrivedAt }: CreateRequest,
  idempotency: Idempotency,
): Promise<CreateResult> {
  const { key, request_sha256, replay_minutes, by_retry } = idempotency;
  await lockIdempotencyKey(trx, projectId, key);
  const earlier =
    replay_minutes === null
      ? await findBatchOfRetry(trx, projectId, key, arrivedAt)
      : await findIdempotentBatch(trx, projectId, key, replay_minutes);
  if (earlier !== null) {
    if (earlier.request_sha256 !== request_sha256) {
      throw new NightshiftError(
        'idempotency_mismatch',
        'This Idempotency-Key was already used with another body. Send a new key.',
      );
    }
    return { batch_id: earlier.batch_id, ready: 0, replayed: true };
  }
  // Checked after the replay: a repeated batch may have been accepted before its deadline.
  const batch = {
    id: newId(),
    callback_url: body.callback_url ?? null,
    deadline: body.deadline ?? null,
    metadata: body.metadata ?? null,
    apply: body.apply ?? 'auto',
    cap: toCap(body),
    runs,
    shared_path: body.template == null ? null : '/template',
    idempotency: { key, request_sha256, by_retry },
  };
  const { ready } = await acceptBatch(trx, projectId, batch, { now, prices });
  return { batch_id: batch.id, ready, replayed: false };
}
