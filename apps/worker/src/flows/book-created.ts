import { isError } from '@nightshift/agent-core';
import {
  commitProven,
  commitSubmitted,
  inTransaction,
  newId,
  type ClaimedProviderBatch,
  type Lease,
} from '@nightshift/db';
import type { RemoteBatch } from '../provider/port.ts';
import type { FlowDeps } from './deps.ts';
import { newNonce } from './nonce.ts';

/** How a created batch was booked. */
export interface BookedCreate {
  readonly outcome: 'submitted' | 'submitted late' | 'orphan';
  readonly provider_id?: string;
  readonly reason?: string;
  readonly alarm?: boolean;
}

/**
 * Books a batch that the provider has just said to have created. Where the sender was overtaken meanwhile, its answer proves all
 * the same whose the batch is: its submission takes it, or, sent anew by then, it is booked as an orphan and cancelled.
 */
export async function bookCreated(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: Lease,
  remote: RemoteBatch,
): Promise<BookedCreate> {
  const { db, bell, provider, settings } = deps;
  const first = Math.min(settings.poll.poll_interval_ms, 30_000);
  try {
    await inTransaction(db, (trx) => commitSubmitted(trx, lease, remote, first));
    await bell.ring([{ kind: 'poll', id: batch.id }]);
    return { outcome: 'submitted' };
  } catch (error) {
    if (!isError(error, 'fenced')) throw error;
  }
  const { provider_id, expires_at } = remote;
  const { nonce, project_id, credential, request_count, id: provider_batch_id } = batch;
  const of = { nonce, project_id, credential, request_count, provider_batch_id };
  const detail = {
    reason: 'its create was answered after it had been sent anew',
    of: provider_batch_id,
    nonce,
    proven: true,
  };
  const orphan = { id: newId(), nonce: newNonce(), detail };
  const outcome = await inTransaction(db, (trx) =>
    commitProven(trx, { provider_id, expires_at, of }, orphan),
  );
  if (outcome !== 'orphan') {
    await bell.ring([{ kind: 'poll', id: batch.id }]);
    return { outcome: 'submitted late', provider_id };
  }
  const cancelled = await provider.cancelBatch(provider_id);
  const heard = cancelled.outcome === 'unavailable' ? `; its cancel was not heard: ${cancelled.reason}` : '';
  return { outcome: 'orphan', provider_id, reason: detail.reason + heard, alarm: true };
}
