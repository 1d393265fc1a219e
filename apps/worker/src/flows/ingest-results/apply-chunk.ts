import { isAwaited, isError } from '@nightshift/agent-core';
import {
  commitDecisions,
  commitQuarantinedLines,
  holdLease,
  inTransaction,
  markFinishedBatches,
  pauseBatches,
  pauseCredential,
  readRunsToDecide,
  type ClaimedProviderBatch,
  type RunToDecide,
} from '@nightshift/db';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { sortLines, type Entry } from '../../flow-parts/results/sort-result-lines.ts';
import { recordAnswers } from '../../flow-parts/record-work.ts';
import { ringAfterCommit } from '../../flow-parts/ring.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import type { Line } from '../../provider/line-splitter.ts';
import type { AppliedChunk } from './applied-chunk.ts';
import { decideChunk } from './decide-chunk.ts';
import { failedLinesOf } from './failed-lines.ts';
import { tryQuickCalls, type QuickStep } from './quick-calls.ts';
import { weighOutages } from './weigh-outages.ts';

const NOTHING_TRIED: ReadonlyMap<string, QuickStep> = new Map();
const CANCELLED_ELSEWHERE =
  'Requests of it were cancelled at the provider, and not by Nightshift: at its console, perhaps. Resume the batch to send them again, or cancel it.';
/** Attempts to decide a chunk whose runs change meanwhile. */
const STALE_TRIES_MAX = 5;

/**
 * Decodes a chunk of result lines, each in isolation, and applies them in one transaction.
 * `isWhole`: the lines are not part of a failed chunk. Quick calls of the answers are then made first and end in the same
 * transaction, and the lines are evidence for or against an outage.
 */
export async function applyChunk(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  lines: readonly Line[],
  isWhole = true,
): Promise<AppliedChunk> {
  // An unreadable line may be readable in the next pass; only the last pass takes it as the answer.
  const isLastPass = batch.streams + 1 >= deps.settings.streams_max;
  const { prices } = deps.settings;
  const { entries: sorted, bad, cut } = sortLines(batch, lines, isLastPass, prices);
  const runs = await readRunsToDecide(deps.db, [...sorted.keys()]);
  const { entries, evidence } = await weighOutages(deps, batch, sorted, runs, isWhole);
  const trouble = accountTroubleIn(entries, runs);
  if (trouble !== null)
    await pauseCredential(deps.db, batch.credential, deps.settings.refusal.pause_ms, trouble);
  const cancelled = cancelledElsewhere(entries, runs);
  if (cancelled.length > 0)
    await inTransaction(deps.db, (trx) => pauseBatches(trx, cancelled, CANCELLED_ELSEWHERE));
  const quick = isWhole ? await tryQuickCalls(deps, lease, entries.values(), runs) : NOTHING_TRIED;
  const { decided, report } = await decideWhileFresh(deps, entries, runs, (facts) =>
    inTransaction(deps.db, async (trx) => {
      await holdLease(trx, lease);
      const decided = await decideChunk(deps, trx, entries, facts, quick);
      const report = await commitDecisions(trx, decided);
      if (bad.length > 0) await commitQuarantinedLines(trx, batch, bad);
      await deps.hooks?.('ingest.before_commit');
      return { decided, report };
    }),
  );
  await ringAfterCommit(deps, report, await markFinishedBatches(deps.db, report.ended_batch_ids));
  await recordAnswers(deps, decided);
  return {
    applied: decided.length,
    refused: entries.size - decided.length,
    quarantined: bad.length,
    cut,
    alarms: trouble === null ? [] : [trouble],
    failed: failedLinesOf(decided),
    evidence,
  };
}

/**
 * Returns the account trouble of a line whose step is still pending: a line read again may name a key mended by now.
 * Handled before the commit, because committed lines are never pending again.
 */
function accountTroubleIn(
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
): string | null {
  for (const { key, accountTrouble } of entries.values()) {
    const run = runs.get(key.run_id);
    if (accountTrouble !== null && run !== undefined && isAwaited(run, key)) return accountTrouble;
  }
  return null;
}

/**
 * Returns the batches with requests that were cancelled at the provider's console.
 * Nightshift cancels only provider batches of batches being cancelled. The batches are paused before the commit in a
 * transaction of its own, because batch locks come before provider-batch locks.
 */
function cancelledElsewhere(
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
): readonly string[] {
  const batchIds = new Set<string>();
  for (const { key, outcome } of entries.values()) {
    if (outcome.kind !== 'canceled') continue;
    const run = runs.get(key.run_id);
    if (run !== undefined && run.batch_state !== 'cancelling' && isAwaited(run, key))
      batchIds.add(run.batch_id);
  }
  return [...batchIds];
}

/**
 * Commits decisions on the runs as read, and reads the runs again if one has changed meanwhile.
 * A file may hold a line twice, and another chunk was faster. The second decision refuses an answered step.
 */
async function decideWhileFresh<T>(
  { db }: FlowDeps,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  commit: (runs: ReadonlyMap<string, RunToDecide>) => Promise<T>,
): Promise<T> {
  let facts = runs;
  for (let tries = 1; ; tries++) {
    try {
      return await commit(facts);
    } catch (error) {
      if (!isError(error, 'stale') || tries === STALE_TRIES_MAX) throw error;
      facts = await readRunsToDecide(db, [...entries.keys()]);
    }
  }
}
