import {
  claimForgottenBatch,
  forgetExpiredBatches,
  inTransaction,
  releaseLease,
  removeEmptyProviderBatches,
  removePortion,
  type RemovedPortion,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'forget-batches';
/** A provider lists batches for 29 days. */
export const PROVIDER_BATCH_DAYS = 30;
const PROVIDER_BATCHES_PER_CALL = 50;
const BATCHES_PER_CALL = 100;
/** Runs that one transaction removes. */
const RUNS_PER_PORTION = 500;
const PORTIONS_PER_CALL = 10;
/** Rest after a call, as a multiple of its duration, so that steps go first. */
const REST_FACTOR = 2;

/**
 * Forgets batches whose time is over, and removes the rows of one forgotten batch, in portions of whole runs. After a crash the
 * next worker continues behind the last portion. Provider batches go 30 days after they were made, once they have no steps.
 */
export async function forgetBatches(
  deps: FlowDeps,
  runsPerPortion: number = RUNS_PER_PORTION,
): Promise<FlowReport> {
  const { db, claimant, hooks, settings } = deps;
  const forgotten = await inTransaction(db, (trx) =>
    forgetExpiredBatches(trx, settings.retention_days, BATCHES_PER_CALL),
  );
  const provider_batches = await inTransaction(db, (trx) =>
    removeEmptyProviderBatches(trx, PROVIDER_BATCH_DAYS, PROVIDER_BATCHES_PER_CALL),
  );
  const report = { flow: FLOW, forgotten, provider_batches };
  const batch = await claimForgottenBatch(db, claimant);
  if (batch === null) return { ...report, worked: forgotten + provider_batches > 0 };
  const claim = { table: 'forgotten_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    const began = performance.now();
    const sums = { runs: 0, steps: 0 };
    let portion: RemovedPortion | null = null;
    for (let portions = 0; portions < PORTIONS_PER_CALL && portion?.is_over !== true; portions++) {
      portion = await inTransaction(db, async (trx) => {
        const removed = await removePortion(trx, lease, runsPerPortion);
        await hooks?.('forget.before_commit');
        return removed;
      });
      await hooks?.('forget.after_commit');
      sums.runs += portion.runs;
      sums.steps += portion.steps;
    }
    const is_over = portion?.is_over === true;
    if (!is_over) await releaseLease(db, lease, 0);
    return {
      ...report,
      worked: true,
      batch_id: batch.id,
      taken_over_from: batch.taken_over_from,
      ...sums,
      is_over,
      ...(is_over ? {} : { rest_ms: REST_FACTOR * (performance.now() - began) }),
    };
  });
}
