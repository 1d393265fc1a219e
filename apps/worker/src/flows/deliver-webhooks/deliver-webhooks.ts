import { decideAfterCallback, toEventId, toWireId } from '@nightshift/agent-core';
import {
  claimCallbackEvent,
  claimDueBatches,
  commitCallback,
  commitCallbackEvent,
  inTransaction,
  readEndedBatch,
  readNow,
  releaseLease,
  type CallbackDelivery,
  type ClaimedCallbackEvent,
  type EndedBatch,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { CallbackPort, FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'deliver-webhooks';
/** Time for the delivery of an event; a delivery takes at most 15 seconds. Unit: milliseconds. */
const EVENT_LEASE_MS = 60_000;

/**
 * Posts one callback of an ended batch, at least once; without such a batch, one event of a callback.
 * After a crash between the post and its record, it is posted again under the same id. Failures are retried for about three
 * days.
 */
export async function deliverWebhooks(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant } = deps;
  const [batch] = await claimDueBatches(db, ['completed', 'failed', 'cancelled'], 1, claimant);
  if (batch === undefined) return deliverEvent(deps);
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

/** Posts one event of a callback, at least once: a killed worker's claim ends, and the event is due again. */
async function deliverEvent({ db, callbacks, hooks }: FlowDeps): Promise<FlowReport> {
  const event = await claimCallbackEvent(db, EVENT_LEASE_MS);
  if (event === null) return { flow: FLOW, worked: false };
  const delivery =
    event.callback_url === null
      ? { delivered: false, status_code: null, error: 'the batch was deleted', delay_ms: null }
      : await post(
          callbacks,
          { id: toEventId(event), url: event.callback_url, body: bodyOfEvent(event) },
          event.attempts,
          await readNow(db),
        );
  await hooks?.('webhook.after_event');
  await inTransaction(db, (trx) => commitCallbackEvent(trx, event, delivery));
  return {
    flow: FLOW,
    worked: true,
    batch_id: event.batch_id,
    event_id: toEventId(event),
    event_type: event.type,
    delivered: delivery.delivered,
    status: delivery.status_code,
    error: delivery.error,
  };
}

function deliver(callbacks: CallbackPort, ended: EndedBatch, now: Date): Promise<CallbackDelivery> {
  const callback = { id: toWireId('job', ended.id), url: ended.callback_url, body: bodyOf(ended) };
  return post(callbacks, callback, ended.callback_attempts, now);
}

/** Posts a callback once, and decides about the next delivery. */
async function post(
  callbacks: CallbackPort,
  callback: { readonly id: string; readonly url: string; readonly body: string },
  attempts: number,
  now: Date,
): Promise<CallbackDelivery> {
  const outcome = await callbacks.post({ ...callback, timestamp: Math.floor(now.getTime() / 1000) });
  const status_code = outcome.kind === 'answered' ? outcome.status : null;
  const decision = decideAfterCallback(outcome, attempts + 1);
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

/** Builds the body of an event: its type and time, and the present state of the batch. */
function bodyOfEvent({ type, data, created_at, batch_id, state, metadata }: ClaimedCallbackEvent): string {
  return JSON.stringify({
    type,
    created_at: created_at.toISOString(),
    job_id: toWireId('job', batch_id),
    state,
    metadata,
    data,
  });
}
