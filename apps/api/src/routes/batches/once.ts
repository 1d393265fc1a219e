import { NightshiftError, toWireId } from '@nightshift/agent-core';
import {
  findBatchOfRetry,
  findIdempotentRequest,
  lockIdempotencyKey,
  type Database,
  type NewBatch,
  type Tx,
} from '@nightshift/db';
import { signalsOfStored, type StoredBatch } from '@nightshift/intake';
import type { FastifyReply } from 'fastify';
import type { Context } from '../../context.ts';
import { keyIsUsed } from '../../idempotency/key.ts';
import type { BatchResponse } from '../../schemas/batch.ts';
import type { Idempotency } from './idempotency.ts';
import { readShownBatch } from './shown-batch.ts';

/** A batch stored by a request, or by an earlier request with its key. */
export interface OnceStored extends StoredBatch {
  readonly replayed: boolean;
}

/**
 * Stores a batch, unless an earlier request with the same key has stored it.
 * Throws: `idempotency_mismatch` for a key of another body; what `store` throws.
 * Locks: the idempotency key first.
 */
export async function storeOnce(
  trx: Tx,
  projectId: string,
  idempotency: Idempotency,
  arrivedAt: Date,
  store: (idempotency: NonNullable<NewBatch['idempotency']>) => Promise<StoredBatch>,
): Promise<OnceStored> {
  const { key, request_sha256, by_retry } = idempotency;
  await lockIdempotencyKey(trx, projectId, key);
  const earlier = await findEarlier(trx, projectId, idempotency, arrivedAt);
  return earlier ?? { ...(await store({ key, request_sha256, by_retry })), replayed: false };
}

/**
 * Finds the batch of an earlier request with the same key; null without one. Decisions about it need `lockIdempotencyKey`.
 * Throws: `idempotency_mismatch`.
 */
export async function findEarlier(
  db: Database,
  projectId: string,
  { key, request_sha256, replay_minutes }: Idempotency,
  arrivedAt: Date,
): Promise<OnceStored | null> {
  const earlier =
    replay_minutes === null
      ? await findBatchOfRetry(db, projectId, key, arrivedAt)
      : await findIdempotentRequest(db, projectId, key, replay_minutes);
  if (earlier === null) return null;
  if (earlier.batch_id === null || earlier.request_sha256 !== request_sha256) throw keyIsUsed();
  return { batch_id: earlier.batch_id, ready: 0, is_receiving: false, replayed: true };
}

/** Wakes workers for a stored batch, and answers with it. Throws: `not_found` for the batch of an earlier request that was deleted. */
export async function answerStored(
  context: Context,
  reply: FastifyReply,
  made: OnceStored,
): Promise<BatchResponse> {
  await context.bell.ring(signalsOfStored(made));
  if (made.replayed) void reply.header('idempotent-replayed', 'true');
  try {
    return (await readShownBatch(context, made.batch_id)).batch;
  } catch (error) {
    if (!made.replayed || !(error instanceof NightshiftError) || error.code !== 'not_found') throw error;
    throw new NightshiftError(
      'not_found',
      `This Idempotency-Key has made the batch ${toWireId('job', made.batch_id)}, which was deleted. Send a new key.`,
    );
  }
}
