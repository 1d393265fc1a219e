import { NightshiftError } from '@nightshift/agent-core';
import {
  findBatchOfRetry,
  findIdempotentBatch,
  lockIdempotencyKey,
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
  { key, request_sha256, replay_minutes, by_retry }: Idempotency,
  arrivedAt: Date,
  store: (idempotency: NonNullable<NewBatch['idempotency']>) => Promise<StoredBatch>,
): Promise<OnceStored> {
  await lockIdempotencyKey(trx, projectId, key);
  const earlier =
    replay_minutes === null
      ? await findBatchOfRetry(trx, projectId, key, arrivedAt)
      : await findIdempotentBatch(trx, projectId, key, replay_minutes);
  if (earlier === null) return { ...(await store({ key, request_sha256, by_retry })), replayed: false };
  if (earlier.request_sha256 === request_sha256)
    return { batch_id: earlier.batch_id, ready: 0, is_receiving: false, replayed: true };
  throw new NightshiftError(
    'idempotency_mismatch',
    'This Idempotency-Key was already used with another body. Send a new key.',
  );
}
