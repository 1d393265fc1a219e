import { estimateBatch, type Cap } from '@nightshift/agent-core';
import { inTransaction, readBatch, readNow, type Tx } from '@nightshift/db';
import {
  BATCH_BYTES_MAX,
  isCapped,
  prepareBatch,
  refuseCannotStart,
  refuseLowCap,
  signalsOfStored,
  storeBatch,
  toCap,
  type PreparedBatch,
  type PreparedFleet,
} from '@nightshift/intake';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { elapsedMs } from '../../large-bodies/handed-over.ts';
import { problems } from '../../schemas/answers.ts';
import { batchInput, batchResponse, toBatchRequest } from '../../schemas/batch.ts';
import { toBatchResponse } from '../../wire/to-batch.ts';
import { measureFleet } from './measure-fleet.ts';
import { idempotencyHeaders, idempotencyOf, type Idempotency } from './idempotency.ts';
import { storeOnce, type OnceStored } from './once.ts';

/** Agents of a fleet with a cap whose requests are measured before it is accepted, and before it is refused. */
const AGENTS_MEASURED = 50;
const AGENTS_JUDGED = 2_000;

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
      const idempotency = idempotencyOf(request);
      const now = await readNow(context.db);
      const arrivedAt = new Date(now.getTime() - elapsedMs(reply));
      const prepared = await prepareBatch(toBatchRequest(request.body), (bytes) => holdMore(request, bytes));
      const made = await inTransaction(context.db, (trx) =>
        acceptOnce(trx, context, { prepared, now, arrivedAt }, idempotency),
      );
      await context.bell.ring(signalsOfStored(made));
      if (made.replayed) void reply.header('idempotent-replayed', 'true');
      return toBatchResponse(await readBatch(context.db, context.projectId, made.batch_id));
    },
  );
}

interface CreateRequest {
  readonly prepared: PreparedBatch;
  readonly now: Date;
  readonly arrivedAt: Date;
}

/** Stores a batch once for its key. The deadline is checked after the replay: a repeated batch may have been accepted before it. */
function acceptOnce(
  trx: Tx,
  { projectId, prices }: Pick<Context, 'projectId' | 'prices'>,
  { prepared, now, arrivedAt }: CreateRequest,
  idempotency: Idempotency,
): Promise<OnceStored> {
  return storeOnce(trx, projectId, idempotency, arrivedAt, async (idempotency) => {
    const made = await storeBatch(trx, projectId, prepared, { now, prices, idempotency });
    const cap = toCap(prepared.options);
    if ('source' in prepared) await refuseLowFleetCap({ db: trx, projectId, prices }, prepared, cap);
    else await refuseLowCap(trx, made.batch_id, prices, cap);
    return made;
  });
}

/**
 * Refuses a cap that leaves no room for a single request of a fleet. Never refuses by a sample of its agents.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
async function refuseLowFleetCap(
  context: Pick<Context, 'db' | 'projectId' | 'prices'>,
  prepared: PreparedFleet & Pick<PreparedBatch, 'options'>,
  cap: Cap,
): Promise<void> {
  if (!isCapped(cap)) return;
  for (const agentsMax of [AGENTS_MEASURED, AGENTS_JUDGED]) {
    const { groups, fleet } = await measureFleet(context, prepared.options, prepared, agentsMax);
    const estimate = estimateBatch(context.prices, groups, cap);
    if (estimate.verdict !== 'cannot_start') return;
    if (fleet?.measured_agents === fleet?.agents) refuseCannotStart(estimate, cap);
  }
}
