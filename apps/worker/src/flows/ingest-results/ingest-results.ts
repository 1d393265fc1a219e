import { CRASHES_MAX, isMissingForGood } from '@nightshift/agent-core';
import {
  claimDueProviderBatches,
  commitDisproved,
  commitIngested,
  commitStreamAgain,
  inTransaction,
  markGathered,
  readNow,
  readOpenDoubts,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { sentMsAgo } from '../../flow-parts/provider-time.ts';
import { settleOpenSteps } from '../../flow-parts/results/settle-open-steps.ts';
import { jitterDelay } from '../../flow-parts/alone.ts';
import { failureReport } from './failed-lines.ts';
import { streamPass } from './stream-pass.ts';
import { commitEvidence } from './weigh-outages.ts';

const FLOW = 'ingest-results';
/** Time after the end of a batch from which missing results alarm an operator. Unit: milliseconds. */
const RESULTS_LATE_MS = 3_600_000;
/** The end of a pass lets ready runs be sealed without waiting for more. */
const GATHERED = [{ kind: 'compose', id: '*' }] as const;

/**
 * Streams the results of an ended provider batch and applies every line exactly once.
 * The stream may break, repeat or stop early: guards refuse answered steps. The batch is `ingested` only when no step is
 * `sealed` any more; until then it is streamed again from the top. Steps that stay missing after complete passes are
 * settled as missing. An adopted batch that is gone, or ends without a line that proves it, settles nothing: the search for
 * ours goes on.
 *
 * Lines that time out are left for the next pass, and this pass still counts. The last pass sets a few such lines aside. If
 * there are many, or no line of a chunk is applied, the pass stops and does not count.
 *
 * After three workers that crashed or were blocked past their lease, lines are applied one by one, each noted before its
 * attempt. A line with three such crashes alone is set aside.
 */
export async function ingestResults(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, claimant, hooks, settings } = deps;
  const [batch] = await claimDueProviderBatches(db, ['ended'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  const claimed = {
    flow: FLOW,
    worked: true,
    provider_batch_id: batch.id,
    taken_over_from: batch.taken_over_from,
  };
  return withLease(deps.leases, claim, async (lease) => {
    await hooks?.('ingest.after_claim');
    if (batch.crash_count >= CRASHES_MAX) await jitterDelay(deps, lease);
    const isAdopted = (await readOpenDoubts(db)).some((doubt) => doubt.provider_batch_id === batch.id);
    const pass = await streamPass(deps, batch, lease, isAdopted);
    await deps.work.flush(db);
    const { end } = pass;
    const isStreamed = end === 'complete' || end === 'cut';
    const report = { ...claimed, ...failureReport(pass.failed) };
    if (isStreamed) await commitEvidence(deps, batch, pass.evidence);
    const isMissing = end === 'missing' && (await missingForTooLong(deps, batch));
    const gone = end === 'archived' || isMissing || (isStreamed && batch.streams + 1 >= settings.streams_max);
    if (pass.foreign || (gone && !pass.proven)) {
      await inTransaction(db, (trx) => commitDisproved(trx, lease, 'ended'));
      return {
        ...report,
        outcome: 'not ours',
        provider_id: batch.provider_id,
        ...(pass.foreign ? {} : { reason: pass.reason, warning: true }),
      };
    }
    await hooks?.('ingest.before_end');
    if (end === 'complete' && (await inTransaction(db, (trx) => commitIngested(trx, lease, pass.refused)))) {
      await markGathered(db, 'ingest');
      await bell.ring(GATHERED);
      return {
        ...report,
        outcome: 'ingested',
        applied: pass.applied,
        refused: pass.refused,
        quarantined: pass.quarantined,
        ...(pass.noticed === null ? {} : { reason: pass.noticed, alarm: true }),
      };
    }
    if (gone) {
      const missing = await settleOpenSteps(deps, batch, lease);
      await inTransaction(db, (trx) => commitIngested(trx, lease, pass.refused));
      await markGathered(db, 'ingest');
      await bell.ring(GATHERED);
      return {
        ...report,
        outcome: 'ingested with gaps',
        applied: pass.applied,
        missing,
        reason: pass.reason,
        alarm: true,
      };
    }
    const own = Math.min(1_000 * 2 ** Math.min(batch.failures, 9), 300_000);
    const delay_ms = Math.max(own, pass.retry_after_ms ?? 0);
    await inTransaction(db, (trx) =>
      commitStreamAgain(trx, lease, {
        streamed: isStreamed,
        missing: end === 'missing',
        lines_refused: pass.refused,
        reason: pass.reason,
        delay_ms,
      }),
    );
    const endedMs = (batch.ended_at ?? batch.created_at).getTime();
    const isLate = (await readNow(db)).getTime() - endedMs > RESULTS_LATE_MS;
    return {
      ...report,
      outcome: 'again',
      applied: pass.applied,
      reason: pass.reason,
      alarm: pass.alarm || isLate,
      ...(end === 'missing' ? { warning: true } : {}),
    };
  });
}

/** Whether the provider has not found the results for longer than any lag. */
async function missingForTooLong(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<boolean> {
  if (batch.missing_since === null) return false;
  const facts = { missing_since: batch.missing_since, sent_ms_ago: sentMsAgo(deps, batch) };
  return isMissingForGood(facts, await readNow(deps.db), deps.settings.poll);
}
