import { decideAfterSearch } from '@nightshift/agent-core';
import {
  claimDueProviderBatches,
  commitAdopted,
  commitSearchedAgain,
  commitUnknown,
  commitWithdrawn,
  inTransaction,
  readKnownProviderIds,
  readNow,
  readOpenDoubts,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { newNonce } from '../../flow-parts/nonce.ts';

const FLOW = 'reconcile-submission';
/**
 * Duration of a doubt from which an operator is alarmed: lists may be incomplete, or a twin may block it. Unit:
 * milliseconds.
 */
const LONG_DOUBT_MS = 2 * 3_600_000;

/**
 * Resolves a create without an answer.
 * - A `submitting` row with an expired lease becomes `unknown`.
 * - An `unknown` row is searched in the provider's list after the quarantine. If it is found, it is adopted. If enough
 *   complete lists lack it, it is sent again under a new nonce.
 * The quarantine restarts with the doubt: a lease may have expired by a jump of the database's clock while the create is
 * still on its way.
 */
export async function reconcileSubmission(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant } = deps;
  const [batch] = await claimDueProviderBatches(db, ['submitting', 'unknown'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async () => {
    const detail = batch.state === 'submitting' ? await doubt(deps, batch) : await search(deps, batch);
    return {
      flow: FLOW,
      worked: true,
      provider_batch_id: batch.id,
      taken_over_from: batch.taken_over_from,
      ...detail,
    };
  });
}

async function doubt(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<{ readonly outcome: string }> {
  const { db, settings } = deps;
  const lease = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  await inTransaction(db, (trx) =>
    commitUnknown(trx, lease, 'the sender died or stalled', settings.reconcile.quarantine_ms),
  );
  return { outcome: 'unknown' };
}

async function search(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
): Promise<{
  readonly outcome: string;
  readonly provider_id?: string;
  readonly reason?: string;
  readonly warning?: boolean;
  readonly alarm?: boolean;
}> {
  const { db, provider, settings, hooks } = deps;
  const lease = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  const submission = {
    request_count: batch.request_count,
    sent_at: batch.provider_sent_at ?? startedAt(batch),
    searches: batch.searches,
  };
  const listed = await provider.listBatches({
    createdAfter: new Date(submission.sent_at.getTime() - settings.reconcile.clock_margin_ms),
  });
  // A send time of the database's clock cannot be compared with the provider's time.
  const list = { complete: listed.complete, now: batch.provider_sent_at === null ? null : listed.now };
  await hooks?.('reconcile.after_list');
  // Read before the known ids: a submission that settles in between is then known, and no rival.
  const others = (await readOpenDoubts(db)).filter((other) => other.provider_batch_id !== batch.id);
  const known = await readKnownProviderIds(
    db,
    listed.batches.map((remote) => remote.provider_id),
    batch.id,
  );
  const strangers = listed.batches.filter((remote) => !known.has(remote.provider_id));
  const decision = decideAfterSearch(submission, strangers, list, settings.reconcile, others);
  await hooks?.('reconcile.before_commit');
  switch (decision.kind) {
    case 'adopt': {
      const { provider_id } = decision.candidate;
      const expires_at = strangers.find((remote) => remote.provider_id === provider_id)?.expires_at ?? null;
      await inTransaction(db, (trx) => commitAdopted(trx, lease, { provider_id, expires_at }));
      await deps.bell.ring([{ kind: 'poll', id: batch.id }]);
      return { outcome: 'adopted', provider_id };
    }
    case 'search_again':
      await inTransaction(db, (trx) => commitSearchedAgain(trx, lease, decision.counts, decision.delay_ms));
      return {
        outcome: 'not found yet',
        ...(listed.unavailable === null ? {} : { reason: listed.unavailable.reason, warning: true }),
        alarm: (await readNow(db)).getTime() - startedAt(batch).getTime() > LONG_DOUBT_MS,
      };
    case 'withdraw':
      await inTransaction(db, (trx) => commitWithdrawn(trx, lease, newNonce()));
      await deps.bell.ring([{ kind: 'submit', id: batch.id }]);
      return { outcome: 'withdrawn' };
  }
}

function startedAt(batch: ClaimedProviderBatch): Date {
  if (batch.submit_started_at === null)
    throw new Error(`Provider batch ${batch.id} was never written ahead.`);
  return batch.submit_started_at;
}
