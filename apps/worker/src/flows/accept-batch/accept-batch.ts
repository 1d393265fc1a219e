import { claimDueBatches, inTransaction, releaseLease } from '@nightshift/db';
import { acceptPortion, type PortionReport } from '@nightshift/intake';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { withLease } from '../../leases/with-lease.ts';

const FLOW = 'accept-batch';

/**
 * Makes the runs of one received batch, a portion per transaction. After a crash the next worker continues behind the last
 * portion. The runs are queued when all are stored.
 */
export async function acceptBatch(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant, bell, hooks, settings } = deps;
  const [batch] = await claimDueBatches(db, ['receiving'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'batch', id: batch.id, epoch: batch.lease_epoch } as const;
  return withLease(deps.leases, claim, async (lease) => {
    let runs = 0;
    let agents = 0;
    let report: PortionReport;
    do {
      report = await inTransaction(db, async (trx) => {
        const done = await acceptPortion(trx, lease, settings);
        await hooks?.('accept.before_commit');
        return done;
      });
      await hooks?.('accept.after_commit');
      if (report.kind === 'portion') {
        runs += report.runs;
        agents += report.agents;
      }
    } while (report.kind === 'portion');
    // Due at once for the cancel that came first.
    if (report.kind === 'gone') await releaseLease(db, lease, 0);
    const isEmpty = report.kind === 'accepted' && report.open_runs === 0;
    if (report.kind === 'gone') await bell.ring([{ kind: 'cancel', id: batch.id }]);
    else await bell.ring([isEmpty ? { kind: 'finish', id: batch.id } : { kind: 'compose', id: '*' }]);
    return {
      flow: FLOW,
      worked: true,
      batch_id: batch.id,
      taken_over_from: batch.taken_over_from,
      agents,
      runs,
      outcome: report.kind,
    };
  });
}
