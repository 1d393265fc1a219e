import { decideAfterCallback, toWireId } from '@nightshift/agent-core';
import {
  claimDueBatches,
  commitCallback,
  inTransaction,
  readEndedBatch,
  readNow,
  releaseLease,
  type CallbackDelivery,
  type EndedBatch,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { CallbackPort, FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'deliver-webhooks';

/**
 * Posts one callback of an ended batch, at least once.
 * After a crash between the post and its record, it is posted again under the same id. Failures are retried for about three
 * days.
 */
export async function deliverWebhooks(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant } = deps;
  const [batch] = await claimDueBatches(db, ['completed', 'failed', 'cancelled'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    const ended = await readEndedBatch(db, batch.id);
    if (ended === null) {
      await releaseLease(db, lease, 86_400_000);
      return { flow: FLOW, worked: true, batch_id: batch.id, outcome: 'no callback' };
    }
    const delivery = await deliver(deps.callbacks, ended, await readNow(db));
    await deps.hooks?.('webhook.after_send');
    await inTransaction(db, (trx) => commitCallback(trx, lease, delivery));
    return {
      flow: FLOW,
      worked: true,
      batch_id: batch.id,
      delivered: delivery.delivered,
      status: delivery.status_code,
      error: delivery.error,
    };
  });
}

async function deliver(callbacks: CallbackPort, ended: EndedBatch, now: Date): Promise<CallbackDelivery> {
  const outcome = await callbacks.post({
    id: toWireId('job', ended.id),
    url: ended.callback_url,
    body: bodyOf(ended),
    timestamp: Math.floor(now.getTime() / 1000),
  });
  const status_code = outcome.kind === 'answered' ? outcome.status : null;
  const decision = decideAfterCallback(outcome, ended.callback_attempts + 1);
  if (decision.kind === 'delivered') return { delivered: true, status_code, error: null, delay_ms: null };
  const delay_ms = decision.kind === 'try_again' ? decision.delay_ms : null;
  return { delivered: false, status_code, error: decision.error, delay_ms };
}

/** Builds the body: the four members of Letta's callbacks, and the outcome. */
function bodyOf(ended: EndedBatch): string {
  const { state, total, completed, failed, cancelled, expired } = ended;
  return JSON.stringify({
    job_id: toWireId('job', ended.id),
    status: state,
    completed_at: ended.completed_at.toISOString(),
    metadata: ended.metadata,
    state,
    counts: { total, completed, failed, cancelled, expired },
  });
}
