import { NightshiftError } from '@nightshift/agent-core';
import {
  findBatchOfRetry,
  findIdempotentBatch,
  lockIdempotencyKey,
  type Database,
  type NewBatch,
  type Tx,
} from '@nightshift/db';
import type { StoredBatch } from '@nightshift/intake';
import type { Idempotency } from './idempotency.ts';

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
      : await findIdempotentBatch(db, projectId, key, replay_minutes);
  if (earlier === null) return null;
  if (earlier.request_sha256 === request_sha256)
    return { batch_id: earlier.batch_id, ready: 0, is_receiving: false, replayed: true };
  throw new NightshiftError(
    'idempotency_mismatch',
    'This Idempotency-Key was already used with another body. Send a new key.',
  );
}
