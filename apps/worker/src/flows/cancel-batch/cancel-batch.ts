import { areTwins, decideFinish, isError, type BatchState } from '@nightshift/agent-core';
import {
  claimDueBatches,
  claimProviderBatch,
  commitBatchFinish,
  commitCancelRequested,
  commitParkedRunsReleased,
  commitRunsCancelled,
  commitUnsentDue,
  commitUsagePortion,
  deleteStagedLines,
  holdLease,
  inTransaction,
  lockForFinish,
  RUNS_BOOKED_MAX,
  readOpenDoubts,
  readProviderBatchesOf,
  releaseLease,
  type Lease,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'cancel-batch';
const RUNS_PER_COMMIT = 1_000;
/** Interval while runs may still become idle, or a cancel upstream is open. Unit: milliseconds. */
const LOOK_AGAIN_MS = 5_000;
/** Interval while only ingest or tool calls are left, whose end sends a signal. Unit: milliseconds. */
const REST_MS = 60_000;
/** Time after the request in which decisions from before it may still be committed and let runs go on. */
const DECIDED_BEFORE_MS = 60_000;

/**
 * Cancels a batch.
 * - Idle runs end at once. Staged lines, whose runs were not made, are deleted.
 * - Provider batches that hold only its steps are cancelled upstream.
 * - Paid answers are taken in by ingest.
 * - With no open run, the batch becomes `cancelled`. Until then the flow comes back: often at first, seldom once only
 *   waiting is left.
 */
export async function cancelBatch(
  deps: FlowDeps,
  runsPerBooking: number = RUNS_BOOKED_MAX,
): Promise<FlowReport> {
  const { db, claimant, bell, hooks } = deps;
  const [batch] = await claimDueBatches(db, ['cancelling'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    let cancelled = 0;
    for (let from: number | null = 0; from !== null;) {
      const at: number = from;
      const report = await inTransaction(db, async (trx) => {
        await holdLease(trx, lease);
        const done = await commitRunsCancelled(trx, lease, { from_ordinal: at, limit: RUNS_PER_COMMIT });
        await hooks?.('cancel.before_commit');
        return done;
      });
      await hooks?.('cancel.after_commit');
      cancelled += report.cancelled;
      if (report.started) await bell.ring([{ kind: 'compose', id: '*' }]);
      from = report.next_ordinal;
    }
    await deleteRestOfUpload(deps, lease);
    const isReleased = await releaseParked(deps, lease);
    if (isReleased) await bell.ring([{ kind: 'tools', id: '*' }]);
    const { upstream, isOver } = await cancelUpstream(deps, batch.id);
    await hooks?.('cancel.after_upstream');
    const isQuiet = cancelled === 0 && !isReleased && isOver && (batch.stopping_ms ?? 0) > DECIDED_BEFORE_MS;
    const again_in_ms = isQuiet ? REST_MS : LOOK_AGAIN_MS;
    const state = await finish(deps, lease, again_in_ms, runsPerBooking);
    if (state !== null) await bell.ring([{ kind: 'webhook', id: batch.id }]);
    return {
      flow: FLOW,
      worked: true,
      batch_id: batch.id,
      taken_over_from: batch.taken_over_from,
      cancelled,
      upstream,
      state: state ?? 'cancelling',
      ...(state === null ? { again_in_ms } : {}),
    };
  });
}

/** Ends the batch if no run is open, after it has booked the use of a big batch portion by portion. */
async function finish(
  { db }: FlowDeps,
  lease: Lease,
  againInMs: number,
  runsPerBooking: number,
): Promise<BatchState | null> {
  for (;;) {
    const end = await inTransaction(db, async (trx) => {
      const facts = await lockForFinish(trx, lease);
      const state = decideFinish(facts);
      const isMore = state !== null && (await commitUsagePortion(trx, lease, facts.total, runsPerBooking));
      if (!isMore) await commitBatchFinish(trx, lease, state, againInMs);
      return isMore ? null : { state };
    });
    if (end !== null) return end.state;
  }
}

/** Deletes the staged lines of a batch that was cancelled while it was received. */
async function deleteRestOfUpload({ db }: FlowDeps, lease: Lease): Promise<void> {
  let isLeft = true;
  while (isLeft)
    isLeft = await inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      return deleteStagedLines(trx, lease.id);
    });
}

/** Releases runs that wait for their caller to the tool-call flow; true if there were any. */
async function releaseParked(deps: FlowDeps, lease: Lease): Promise<boolean> {
  let released = 0;
  for (let from: number | null = 0; from !== null;) {
    const at: number = from;
    const report = await inTransaction(deps.db, async (trx) => {
      await holdLease(trx, lease);
      return commitParkedRunsReleased(trx, lease, { from_ordinal: at, limit: RUNS_PER_COMMIT });
    });
    released += report.released;
    from = report.next_ordinal;
  }
  return released > 0;
}

/**
 * Cancels upstream the provider batches that hold only steps of batches being cancelled. Returns the number of cancels.
 * `isOver`: no cancel was sent or is left, and no step can come back unsent.
 */
async function cancelUpstream(
  deps: FlowDeps,
  batchId: string,
): Promise<{ readonly upstream: number; readonly isOver: boolean }> {
  const { db, provider, claimant, leases, bell, settings } = deps;
  let asked = 0;
  const held = await inTransaction(db, async (trx) => {
    // A batch may wait an hour for its next attempt. It is made due now, and its steps are taken back.
    await commitUnsentDue(trx, batchId);
    return readProviderBatchesOf(trx, batchId);
  });
  // Read after the states: the true owner of a batch adopted by then was in doubt before.
  const doubts = await readOpenDoubts(db);
  const stopping = new Set(held.filter(({ exclusive }) => exclusive).map(({ id }) => id));
  const others = doubts.filter((doubt) => !stopping.has(doubt.provider_batch_id));
  // An adopted batch may be foreign, or belong to a twin that goes on, until one of its lines proves otherwise.
  const unproven = new Set(
    doubts
      .filter(
        (doubt) =>
          !settings.workspace_is_ours ||
          others.some((other) => other !== doubt && areTwins(doubt, other, settings.reconcile)),
      )
      .map((doubt) => doubt.provider_batch_id),
  );
  const inDoubt = new Set(doubts.map((doubt) => doubt.provider_batch_id));
  const isOver = held.every(
    ({ id, state, exclusive }) =>
      !inDoubt.has(id) &&
      (state === 'cancelling' || state === 'ended' || (state === 'submitted' && !exclusive)),
  );
  for (const { id, state, exclusive } of held) {
    if (state === 'building') {
      await bell.ring([{ kind: 'submit', id }]);
      continue;
    }
    if (state !== 'submitted' || !exclusive || unproven.has(id)) continue;
    const claimed = await claimProviderBatch(db, id, 'submitted', claimant);
    if (claimed?.provider_id == null) continue;
    const { provider_id } = claimed;
    const claim = { table: 'provider_batch', id, epoch: claimed.lease_epoch } as const;
    try {
      await withLease(leases, claim, async (lease) => {
        const answer = await provider.cancelBatch(provider_id);
        if (answer.outcome === 'found') {
          await inTransaction(db, (trx) => commitCancelRequested(trx, lease));
          await bell.ring([{ kind: 'poll', id }]);
          asked += 1;
        } else {
          // Cancelling saves money but is not guaranteed. The next poll of the batch comes soon.
          await releaseLease(db, lease, 0);
        }
      });
    } catch (error) {
      // The new owner of the lease goes on with it; the other batches are still cancelled.
      if (!isError(error, 'fenced')) throw error;
    }
  }
  return { upstream: asked, isOver };
}
