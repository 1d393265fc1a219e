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
import { measureOffset, offsetFields } from '../../flow-parts/provider-time.ts';

const FLOW = 'hunt-orphans';
/** Result files opened per hunt: in a shared workspace many batches may have the same size as ours. */
const READS_MAX = 50;
/** Timeout for the first lines of a file. Unit: milliseconds. */
const READ_TIMEOUT_MS = 30_000;
/** Lines read of a file: the provider may have mixed a foreign line in first. */
const LINES_MAX = 20;

/**
 * Searches for second batches of submissions that were in doubt, and measures the provider's clock.
 * Such a batch showed up late in the provider's list, or was sent by a paused worker. It is booked as `orphan_paid` and
 * never applied: once it has ended and its lines name the submission, or, in a workspace of our own, at once after a
 * cancel. A batch whose lines name a submission that adopted another batch goes to that submission.
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
  // Read before the known ids: a submission that settles in between is then known, and no orphan.
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
  // Never `worked`: the sweep starts the next look.
  return {
    ...report,
    ...(await tellClock(deps)),
    watched: watched.length,
    suspected: suspects.length,
    booked,
    ...(corrected === 0 ? {} : { corrected }),
    ...(unheard === undefined ? {} : { reason: unheard, warning: true }),
    ...(booked > 0 ? { reason: 'paid provider batches were found that are never applied', alarm: true } : {}),
  };
}

async function tellClock(deps: FlowDeps): Promise<object> {
  const offset = await measureOffset(deps);
  return offset === null ? {} : offsetFields(offset);
}

/** Cancels and books a batch in a workspace of our own. Returns null, or the reason of a cancel without an answer. */
async function bookOnSight(
  deps: FlowDeps,
  { batch, doubt }: Suspect<WatchedSubmission, RemoteBatch>,
): Promise<string | null> {
  const cancelled = await deps.provider.cancelBatch(batch.provider_id);
  // Booked only after the provider took the cancel: the hunt skips booked batches.
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

/** Returns our nonce in the first lines of an ended batch; null if there is none, or none can be read now. */
async function firstNonceOf(
  deps: FlowDeps,
  { provider_id }: RemoteBatch,
  ours: ReadonlyMap<string, unknown>,
): Promise<string | null> {
  const opened = await deps.provider.streamResults(provider_id, {
    idleTimeoutMs: deps.settings.results_idle_timeout_ms,
    // A foreign slow file must not block the hunt.
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
    // Interrupted: the next hunt looks again.
    return null;
  }
  if (seen > 0) deps.strangers.note(provider_id);
  return null;
}
