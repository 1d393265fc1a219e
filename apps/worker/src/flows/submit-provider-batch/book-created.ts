import { isError } from '@nightshift/agent-core';
import {
  commitOrphan,
  commitProven,
  commitSubmitted,
  inTransaction,
  newId,
  type ClaimedProviderBatch,
  type Lease,
} from '@nightshift/db';
import type { RemoteBatch } from '../../provider/port.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { newNonce } from '../../flow-parts/nonce.ts';

/** How a created batch was booked. */
export interface BookedCreate {
  readonly outcome: 'submitted' | 'submitted late' | 'orphan';
  readonly provider_id?: string;
  readonly reason?: string;
  readonly alarm?: boolean;
}

/**
 * Books a created provider batch. If the lease was lost meanwhile, the answer still identifies the submission: the submission
 * takes the batch, or, if it was sent anew by then, the batch is cancelled and booked as an orphan. The hunt books an orphan
 * whose cancel was not heard.
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
  const outcome = await inTransaction(db, (trx) => commitProven(trx, { provider_id, expires_at, of }, null));
  if (outcome !== 'orphan') {
    await bell.ring([{ kind: 'poll', id: batch.id }]);
    return { outcome: 'submitted late', provider_id };
  }
  const reason = 'its create was answered after it had been sent anew';
  // The hunt passes over a booked batch: it is booked here only once the provider has heard the cancel.
  const cancelled = await provider.cancelBatch(provider_id);
  if (cancelled.outcome === 'unavailable')
    return {
      outcome: 'orphan',
      provider_id,
      reason: `${reason}; its cancel was not heard: ${cancelled.reason}`,
      alarm: true,
    };
  const detail = { reason, of: provider_batch_id, nonce, proven: true };
  const orphan = { id: newId(), nonce: newNonce(), provider_id, of, detail };
  await inTransaction(db, (trx) => commitOrphan(trx, orphan));
  return { outcome: 'orphan', provider_id, reason, alarm: true };
}
