import { isError, nextPollMs } from '@nightshift/agent-core';
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
import { readSeenTurnarounds } from '../../flow-parts/seen-turnarounds.ts';

/** Maximum delay of the first poll at fixed intervals. Unit: milliseconds. */
const FIRST_POLL_MS_MAX = 30_000;

/** The booking of a created batch. */
export interface BookedCreate {
  readonly outcome: 'submitted' | 'submitted late' | 'orphan';
  readonly provider_id?: string;
  readonly reason?: string;
  readonly alarm?: boolean;
}

/**
 * Books a created provider batch.
 * After a lost lease the answer still identifies the submission: the submission takes the batch. If it was sent again by
 * then, the batch is cancelled and booked as an orphan. The hunt books an orphan whose cancel got no answer.
 */
export async function bookCreated(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: Lease,
  remote: RemoteBatch,
): Promise<BookedCreate> {
  const { db, bell, provider, settings } = deps;
  try {
    await inTransaction(db, async (trx) => {
      const seen = (await readSeenTurnarounds(deps, trx))(null);
      const next = nextPollMs(0, settings.poll, seen);
      const first = settings.poll.looks === undefined ? Math.min(next, FIRST_POLL_MS_MAX) : next;
      await commitSubmitted(trx, lease, remote, first);
    });
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
  const reason = 'its create was answered after a resend';
  // The hunt skips booked batches: this one is booked only after the provider took the cancel.
  const cancelled = await provider.cancelBatch(provider_id);
  if (cancelled.outcome === 'unavailable')
    return {
      outcome: 'orphan',
      provider_id,
      reason: `${reason}; its cancel got no answer: ${cancelled.reason}`,
      alarm: true,
    };
  const detail = { reason, of: provider_batch_id, nonce, proven: true };
  const orphan = { id: newId(), nonce: newNonce(), provider_id, of, detail };
  await inTransaction(db, (trx) => commitOrphan(trx, orphan));
  return { outcome: 'orphan', provider_id, reason, alarm: true };
}
