import { decideOrphans, fromCustomId, salvageCustomId, type Suspect } from '@nightshift/agent-core';
import {
  commitOrphan,
  commitProven,
  inTransaction,
  newId,
  readKnownProviderIds,
  readOpenDoubts,
  readWatchedSubmissions,
  type WatchedSubmission,
} from '@nightshift/db';
import { splitLines } from '../../provider/line-splitter.ts';
import type { RemoteBatch } from '../../provider/port.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { newNonce } from '../../flow-parts/nonce.ts';
import { measureOffset, tellOffset } from '../../flow-parts/provider-time.ts';

const FLOW = 'hunt-orphans';
/** Result files that are opened in one hunt: in a shared workspace many batches may be of our sizes. */
const READS_MAX = 50;
/** Milliseconds that the first lines of a file may take. */
const READ_TIMEOUT_MS = 30_000;
/** Lines of a file that are looked at: the first may be one that the provider has mixed in. */
const LINES_MAX = 20;

/**
 * Looks for second batches of submissions that were in doubt: one that the provider shows long after it was given up,
 * or that a paused worker sent after all. Such a batch is booked as `orphan_paid` and never applied: at its end, when its
 * lines name the submission; or on sight, and then cancelled, in a workspace of our own. A batch whose
 * lines name a submission that has adopted another one goes to that submission instead. Measures the provider's clock as well.
 */
export async function huntOrphans(deps: FlowDeps): Promise<FlowReport> {
  const { db, provider, settings } = deps;
  const watched = await readWatchedSubmissions(db);
  const report = { flow: FLOW, worked: false };
  if (watched.length === 0) return { ...report, ...(await tellClock(deps)) };
  const oldest = Math.min(...watched.map(({ sent_at }) => sent_at.getTime()));
  const listed = await provider.listBatches({
    createdAfter: new Date(oldest - settings.reconcile.clock_margin_ms),
  });
  await deps.hooks?.('hunt.after_list');
  // Before the ids that are known: a submission that settles in between is then known, and nobody's orphan.
  const open = await readOpenDoubts(db);
  const known = await readKnownProviderIds(
    db,
    listed.batches.map((batch) => batch.provider_id),
  );
  const strangers = listed.batches.filter((batch) => !known.has(batch.provider_id));
  const suspects = decideOrphans(watched, strangers, settings.reconcile, open);
  const byNonce = new Map(watched.map((submission) => [submission.nonce, submission]));
  const ends = { booked: 0, corrected: 0 };
  let unheard = listed.unavailable?.reason;
  let reads = 0;
  for (const suspect of suspects) {
    const { batch } = suspect;
    if (batch.processing_status !== 'ended') {
      if (suspect.may_be_open || !settings.workspace_is_ours) continue;
      const refused = await bookOnSight(deps, suspect);
      if (refused === null) ends.booked += 1;
      unheard ??= refused ?? undefined;
    } else if (!deps.strangers.has(batch.provider_id) && reads < READS_MAX) {
      reads += 1;
      const nonce = await firstNonceOf(deps, batch, byNonce);
      const of = nonce === null ? undefined : byNonce.get(nonce);
      if (of === undefined) continue;
      const end = await bookProven(deps, batch, of);
      if (end !== null) ends[end] += 1;
    }
  }
  const { booked, corrected } = ends;
  // Never `worked`: the next look is the sweep's, not at once.
  return {
    ...report,
    ...(await tellClock(deps)),
    watched: watched.length,
    suspected: suspects.length,
    booked,
    ...(corrected === 0 ? {} : { corrected }),
    ...(unheard === undefined ? {} : { reason: unheard, warning: true }),
    ...(booked > 0 ? { reason: 'batches were paid for that nothing came of', alarm: true } : {}),
  };
}

async function tellClock(deps: FlowDeps): Promise<object> {
  const offset = await measureOffset(deps);
  return offset === null ? {} : tellOffset(offset);
}

/** Cancels a batch in a workspace of our own, and books it. Returns null, or the reason of an unheard cancel. */
async function bookOnSight(
  deps: FlowDeps,
  { batch, doubt }: Suspect<WatchedSubmission, RemoteBatch>,
): Promise<string | null> {
  const cancelled = await deps.provider.cancelBatch(batch.provider_id);
  // Not booked before the provider has heard it: the hunt passes over booked batches.
  if (cancelled.outcome === 'unavailable') return cancelled.reason;
  const orphan = { ...orphanOf(doubt, false), provider_id: batch.provider_id, of: doubt };
  await inTransaction(deps.db, (trx) => commitOrphan(trx, orphan));
  return null;
}

/** Books a batch whose lines bear the nonce of a watched submission. */
async function bookProven(
  deps: FlowDeps,
  { provider_id, expires_at }: RemoteBatch,
  of: WatchedSubmission,
): Promise<'booked' | 'corrected' | null> {
  const proven = { provider_id, expires_at, of };
  const outcome = await inTransaction(deps.db, (trx) => commitProven(trx, proven, orphanOf(of, true)));
  if (outcome === 'orphan') return 'booked';
  if (outcome === 'known') return null;
  await deps.bell.ring([{ kind: 'poll', id: of.provider_batch_id }]);
  return 'corrected';
}

function orphanOf({ provider_batch_id, nonce }: WatchedSubmission, proven: boolean) {
  const reason = 'a second batch of a submission that was in doubt';
  return { id: newId(), nonce: newNonce(), detail: { reason, of: provider_batch_id, nonce, proven } };
}

/** The nonce of ours in the first lines of an ended batch; null when there is none, or none can be had now. */
async function firstNonceOf(
  deps: FlowDeps,
  { provider_id }: RemoteBatch,
  ours: ReadonlyMap<string, unknown>,
): Promise<string | null> {
  const opened = await deps.provider.streamResults(provider_id, {
    idleTimeoutMs: deps.settings.results_idle_timeout_ms,
    // A stranger's slow file must not hold up the hunt.
    signal: AbortSignal.timeout(READ_TIMEOUT_MS),
  });
  if (opened.outcome !== 'open') return null;
  let seen = 0;
  try {
    for await (const lines of splitLines(opened.chunks, deps.settings.line_bytes_max)) {
      for (const line of lines) {
        const id = salvageCustomId(line.kind === 'line' ? line.text : line.head);
        const nonce = id === null ? undefined : fromCustomId(id)?.nonce;
        if (nonce !== undefined && ours.has(nonce)) return nonce;
      }
      seen += lines.length;
      if (seen >= LINES_MAX) break;
    }
  } catch {
    // Broken off: the next hunt looks again.
    return null;
  }
  if (seen > 0) deps.strangers.note(provider_id);
  return null;
}
