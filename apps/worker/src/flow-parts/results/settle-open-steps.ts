import { decideStep, toCustomId, type StepKey, type StepOutcome } from '@nightshift/agent-core';
import {
  commitDecisions,
  holdLease,
  inTransaction,
  lockRuns,
  markFinishedBatches,
  readOpenSteps,
  readPutAsideBills,
  type ClaimedProviderBatch,
  type DecidedRun,
  type Lease,
  type Tx,
} from '@nightshift/db';
import type { FlowDeps } from '../deps.ts';
import { pricedOutcome } from './price-outcome.ts';
import { ringAfterCommit } from '../ring.ts';
import { pricedBill } from './sort-result-lines.ts';

/**
 * Settles all open steps of a provider batch as missing, in chunks, and books the costs in lines set aside. Returns the
 * number of steps.
 */
export async function settleOpenSteps(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: Lease,
): Promise<number> {
  const bills = await readPutAsideBills(deps.db, batch.id);
  const outcomeOf = (key: StepKey): StepOutcome => {
    const bill = bills.get(toCustomId(batch.nonce, key));
    return { kind: 'missing', bill: pricedBill(bill, deps.settings.prices) };
  };
  let settled = 0;
  for (;;) {
    const open = await readOpenSteps(deps.db, lease.id, deps.settings.chunk_lines);
    if (open.length === 0) return settled;
    await settleSteps(
      deps,
      lease,
      open.map((key) => ({ key, outcome: outcomeOf(key) })),
    );
    settled += open.length;
  }
}

/** Settles sealed steps of a provider batch in one transaction, with the commits of `also`. */
export async function settleSteps(
  deps: FlowDeps,
  lease: Lease,
  settled: readonly { readonly key: StepKey; readonly outcome: StepOutcome }[],
  also: (trx: Tx) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const { db, settings } = deps;
  const report = await inTransaction(db, async (trx) => {
    await holdLease(trx, lease);
    const runs = await lockRuns(
      trx,
      settled.map(({ key }) => key.run_id),
    );
    const decided: DecidedRun[] = [];
    for (const { key, outcome } of settled) {
      const run = runs.get(key.run_id);
      if (run === undefined) throw new Error(`Run ${key.run_id} of a sealed step is gone.`);
      const priced = await pricedOutcome(deps, trx, run, outcome);
      const decision = decideStep({ run, key, retry: settings.retry }, priced);
      // A sealed step of a run that has moved on breaks an invariant. To skip it would loop for ever.
      if (decision.kind === 'refuse') {
        throw new Error(`Step ${key.run_id}/${key.number} is sealed and its run is ${run.state}.`);
      }
      decided.push({ run, decision });
    }
    const committed = await commitDecisions(trx, decided);
    await also(trx);
    await deps.hooks?.('settle.before_commit');
    return committed;
  });
  await ringAfterCommit(deps, report, await markFinishedBatches(db, report.ended_batch_ids));
}
