import { CRASHES_MAX, isMissingForGood } from '@nightshift/agent-core';
import {
  claimDueProviderBatches,
  commitDisproved,
  commitIngested,
  commitStreamAgain,
  inTransaction,
  readNow,
  readOpenDoubts,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import { withLease } from '../../leases/with-lease.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { sentMsAgo } from '../../flow-parts/provider-time.ts';
import { settleOpenSteps } from '../../flow-parts/results/settle-open-steps.ts';
import { jitterDelay } from '../../flow-parts/alone.ts';
import { streamPass } from './stream-pass.ts';

const FLOW = 'ingest-results';
/** Milliseconds after the end of a batch from which an operator should hear that its results cannot be had. */
const RESULTS_LATE_MS = 3_600_000;

/**
 * Streams the results of an ended provider batch and applies every line exactly once.
 *
 * The stream may break, repeat or stop early: the guard refuses what is applied, and the batch is `ingested` only when
 * every step that was sent has left `sealed`. Otherwise it is streamed again from the top; steps that complete passes
 * keep missing are settled as missing. What was adopted, and is gone or has passed without a line that proves it, settles
 * nothing: it was not ours, and ours is searched for again.
 *
 * Lines that merely take too long are left for the next pass, and this one is complete without them: the last puts aside what
 * is too slow still, where it is little. Where that is much, or nothing of a chunk goes through, the pass stops and does not count.
 *
 * After three workers that ended over it, or were blocked for longer than their lease, lines are applied one by one, each noted before
 * it is tried. A line that three workers had alone when they ended is set aside.
 */
export async function ingestResults(deps: FlowDeps): Promise<FlowReport> {
  const { db, claimant, hooks, settings } = deps;
  const [batch] = await claimDueProviderBatches(db, ['ended'], 1, claimant);
  if (batch === undefined) return { flow: FLOW, worked: false };
  const claim = { table: 'provider_batch', id: batch.id, epoch: batch.lease_epoch } as const;
  const report = {
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
    const { end } = pass;
    const isStreamed = end === 'complete' || end === 'cut';
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

/** Whether the provider has not known the results for longer than any lag. */
async function missingForTooLong(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<boolean> {
  if (batch.missing_since === null) return false;
  const facts = { missing_since: batch.missing_since, sent_ms_ago: sentMsAgo(deps, batch) };
  return isMissingForGood(facts, await readNow(deps.db), deps.settings.poll);
}
