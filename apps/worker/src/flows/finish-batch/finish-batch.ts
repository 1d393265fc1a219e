import { decideFinish } from '@nightshift/agent-core';
import { claimDueBatches, commitBatchFinish, inTransaction, lockForFinish } from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'finish-batch';
/** Interval for a due batch that still has open runs. Unit: milliseconds. */
const LOOK_AGAIN_MS = 60_000;

/** Ends one batch whose last run has ended. Concurrent workers take turns by the lease and the row lock. */
export async function finishBatch(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant, bell, hooks } = deps;
  const [batch] = await claimDueBatches(db, ['running', 'paused'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    const state = await inTransaction(db, async (trx) => {
      const decided = decideFinish(await lockForFinish(trx, lease));
      await hooks?.('finish.before_commit');
      await commitBatchFinish(trx, lease, decided, LOOK_AGAIN_MS);
      return decided;
    });
    if (state !== null) await bell.ring([{ kind: 'webhook', id: batch.id }]);
    return {
      flow: FLOW,
      worked: true,
      batch_id: batch.id,
      state: state ?? 'still open',
      taken_over_from: batch.taken_over_from,
    };
  });
}
