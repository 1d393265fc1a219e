import { decideOrphans, fromCustomId, salvageCustomId, type Candidate } from '@nightshift/agent-core';
import {
  commitOrphan,
  inTransaction,
  newId,
  readKnownProviderIds,
  readOpenDoubts,
  readWatchedSubmissions,
} from '@nightshift/db';
import { splitLines } from '../provider/line-splitter.ts';
import type { FlowDeps, FlowReport } from './deps.ts';
import { newNonce } from './nonce.ts';

const FLOW = 'hunt-orphans';

/**
 * Looks for second batches of submissions that were in doubt: one that the provider shows long after it was given up,
 * or that a paused worker sent after all. Such a batch is booked as `orphan_paid` and never applied: at its end, when its
 * lines name the submission; or on sight, and then cancelled, where nobody else makes batches in the workspace.
 */
export async function huntOrphans(deps: FlowDeps): Promise<FlowReport> {
  const { db, provider, settings } = deps;
  const watched = await readWatchedSubmissions(db);
  const [oldest] = watched;
  if (oldest === undefined) return { flow: FLOW, worked: false };
  const listed = await provider.listBatches({
    createdAfter: new Date(oldest.submit_started_at.getTime() - settings.reconcile.clock_skew_ms),
  });
  await deps.hooks?.('hunt.after_list');
  // Before the ids that are known: a submission that settles in between is then known, and nobody's orphan.
  const open = await readOpenDoubts(db);
  const known = await readKnownProviderIds(
    db,
    listed.batches.map((batch) => batch.provider_id),
  );
  const strangers = listed.batches.filter((batch) => !known.has(batch.provider_id));
  const found = decideOrphans(watched, strangers, settings.reconcile, open);
  let booked = 0;
  let unheard = listed.unavailable?.reason;
  for (const { doubt, batch } of found) {
    const hasEnded = batch.processing_status === 'ended';
    const nonce = hasEnded ? await firstNonceOf(deps, batch) : null;
    const proven = watched.find((submission) => submission.nonce === nonce);
    if (proven === undefined && (hasEnded || !settings.workspace_is_ours)) continue;
    if (proven === undefined) {
      const cancelled = await provider.cancelBatch(batch.provider_id);
      // Not booked before the provider has heard it: once booked, nobody looks at it again.
      if (cancelled.outcome === 'unavailable') {
        unheard ??= cancelled.reason;
        continue;
      }
    }
    const of = proven ?? doubt;
    const detail = {
      reason: 'a second batch of a submission that was in doubt',
      of: of.provider_batch_id,
      nonce: of.nonce,
      proven: proven !== undefined,
    };
    const orphan = { id: newId(), nonce: newNonce(), provider_id: batch.provider_id, of, detail };
    if (await inTransaction(db, (trx) => commitOrphan(trx, orphan))) booked += 1;
  }
  // Never `worked`: the next look is the sweep's, not at once.
  return {
    flow: FLOW,
    worked: false,
    watched: watched.length,
    suspected: found.length,
    booked,
    ...(unheard === undefined ? {} : { reason: unheard, warning: true }),
    ...(booked > 0 ? { reason: 'batches were paid for that nothing came of', alarm: true } : {}),
  };
}

/** The submission nonce in the first line of an ended batch; null when there is none, or none can be had now. */
async function firstNonceOf(deps: FlowDeps, batch: Candidate): Promise<string | null> {
  const opened = await deps.provider.streamResults(batch.provider_id, {
    idleTimeoutMs: deps.settings.results_idle_timeout_ms,
  });
  if (opened.outcome !== 'open') return null;
  try {
    for await (const [line] of splitLines(opened.chunks, deps.settings.line_bytes_max)) {
      if (line === undefined) continue;
      const id = salvageCustomId(line.kind === 'line' ? line.text : line.head);
      return id === null ? null : (fromCustomId(id)?.nonce ?? null);
    }
  } catch {
    // Broken off before the first line: the next hunt looks again.
  }
  return null;
}
