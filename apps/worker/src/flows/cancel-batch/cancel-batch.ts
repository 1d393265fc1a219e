import { areTwins, decideFinish, isError } from '@nightshift/agent-core';
import {
  claimDueBatches,
  claimProviderBatch,
  commitBatchFinish,
  commitCancelRequested,
  commitParkedRunsReleased,
  commitRunsCancelled,
  commitUnsentDue,
  holdLease,
  inTransaction,
  lockForFinish,
  readOpenDoubts,
  readProviderBatchesOf,
  releaseLease,
  type Lease,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'cancel-batch';
const RUNS_PER_COMMIT = 1_000;
/** When to look again while runs may come to wait, or something is left to be cancelled at the provider. */
const LOOK_AGAIN_MS = 5_000;
/** When to look again where steps are taken in or tools run, whose end is told. */
const REST_MS = 60_000;
/** For so long after the request others may commit what they decided before it: runs that go on. */
const DECIDED_BEFORE_MS = 60_000;

/**
 * Takes a batch that was asked to stop to its end: runs that wait end at once, provider batches that hold nothing but
 * its steps are cancelled upstream, what was paid is taken in by ingest, and when no run is open the batch is
 * `cancelled`. Looks again until then: seldom, once nothing is left to do but to wait.
 */
export async function cancelBatch(deps: FlowDeps): Promise<FlowReport> {
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
    const isReleased = await releaseParked(deps, lease);
    if (isReleased) await bell.ring([{ kind: 'tools', id: '*' }]);
    const { upstream, isOver } = await cancelUpstream(deps, batch.id);
    await hooks?.('cancel.after_upstream');
    const isQuiet = cancelled === 0 && !isReleased && isOver && (batch.stopping_ms ?? 0) > DECIDED_BEFORE_MS;
    const again_in_ms = isQuiet ? REST_MS : LOOK_AGAIN_MS;
    const state = await inTransaction(db, async (trx) => {
      const decided = decideFinish(await lockForFinish(trx, lease));
      await commitBatchFinish(trx, lease, decided, again_in_ms);
      return decided;
    });
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

/** Hands runs that wait for their caller to whoever carries calls out; true if there were any. */
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
 * Cancels at the provider what holds only steps of batches being cancelled. Returns how many were asked for; `isOver`: none was,
 * none is left to be, and no step can come back unsent.
 */
async function cancelUpstream(
  deps: FlowDeps,
  batchId: string,
): Promise<{ readonly upstream: number; readonly isOver: boolean }> {
  const { db, provider, claimant, leases, bell, settings } = deps;
  let asked = 0;
  const held = await inTransaction(db, async (trx) => {
    // One that waits to be sent again, for an hour perhaps, is looked at now, and its steps are taken back.
    await commitUnsentDue(trx, batchId);
    return readProviderBatchesOf(trx, batchId);
  });
  // After the states: whoever may own what was adopted by then was in doubt before.
  const doubts = await readOpenDoubts(db);
  const stopping = new Set(held.filter(({ exclusive }) => exclusive).map(({ id }) => id));
  const others = doubts.filter((doubt) => !stopping.has(doubt.provider_batch_id));
  // One that was taken from a list may be a stranger's, or a twin's that goes on, until a line of it says otherwise.
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
          // Cancelling saves money and is no promise: the batch's own look comes again soon.
          await releaseLease(db, lease, 0);
        }
      });
    } catch (error) {
      // Whoever has taken it over goes on with it, and the others are cancelled all the same.
      if (!isError(error, 'fenced')) throw error;
    }
  }
  return { upstream: asked, isOver };
}
