import { toCustomId } from '@nightshift/agent-core';
import { judgeError, noteTried, readOpenSteps, type ClaimedProviderBatch } from '@nightshift/db';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import type { HeldLease } from '../../leases/keeper.ts';
import { splitLines, type Line } from '../../provider/line-splitter.ts';
import { ResultsInterrupted, type ResultsOutcome } from '../../provider/port.ts';
import { joinChunks, type AppliedChunk } from './applied-chunk.ts';
import { isolateCrashes } from './isolate-crashes.ts';
import { eachInFlight, linesInChunks } from './lines-in-chunks.ts';
import { ownCustomId, proveOwnership, type Ownership } from './prove-ownership.ts';

/** One pass over the results of a provider batch. */
export interface Pass extends AppliedChunk {
  /**
   * - `complete`: the stream ended, and lines that it did not hold do not exist.
   * - `cut`: it ended within a line.
   * - `missing`: the provider does not know the batch.
   * - `archived`: the provider no longer keeps the results.
   * - `broken`: any other way.
   */
  readonly end: 'complete' | 'cut' | 'missing' | 'archived' | 'broken';
  readonly reason: string;
  /** An operator should look. */
  readonly alarm: boolean;
  /** The first alarm of the chunks, independent of the end of the pass. */
  readonly noticed: string | null;
  readonly foreign: boolean;
  readonly proven: boolean;
  /** Retry-after of the provider; null if none. Unit: milliseconds. */
  readonly retry_after_ms: number | null;
}

/** The end of a pass. */
type End = Pick<Pass, 'end' | 'reason'> & Partial<Pick<Pass, 'alarm' | 'retry_after_ms'>>;

/**
 * Streams results once: open → split → prove ownership → drop lines of answered steps → apply. Chunks are applied by {@link
 * isolateCrashes}, some in parallel.
 */
export async function streamPass(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  isAdopted: boolean,
): Promise<Pass> {
  if (batch.crash_count > 0) await noteTried(deps.db, lease);
  // A line that crashed a worker may be set aside since, and must not be read again. Read before the stream opens: only
  // iteration closes the stream, so nothing may fail in between.
  const open = batch.takeovers > 0 ? await readOpenIds(deps, batch) : null;
  const opened = await openResults(deps, batch, lease);
  const ownership = proveOwnership(batch, isAdopted);
  if (opened.outcome !== 'open') return passOf([], ownership, endUnopened(opened));
  const crashes = isolateCrashes(deps, batch, lease);
  const applied: AppliedChunk[] = [];
  const applyLines = async (lines: readonly Line[]): Promise<void> => {
    lease.signal.throwIfAborted();
    if (!ownership.admits(lines)) return;
    const due = open === null ? lines : lines.filter((line) => isDue(batch, line, open));
    if (due.length < lines.length) applied.push({ ...joinChunks([]), refused: lines.length - due.length });
    if (due.length === 0) return;
    await deps.hooks?.('ingest.before_chunk');
    const chunk = await deps.chunkSlots.run(() => {
      // The slot may have been waited for.
      lease.signal.throwIfAborted();
      return crashes.apply(due, due.length === lines.length);
    });
    applied.push(chunk);
    await deps.hooks?.('ingest.after_commit');
  };
  try {
    const lines = splitLines(opened.chunks, deps.settings.line_bytes_max);
    await eachInFlight(
      linesInChunks(lines, () => crashes.chunkLines()),
      crashes.chunks_max,
      applyLines,
    );
  } catch (error) {
    return passOf(applied, ownership, endBroken(error));
  }
  const [left] = crashes.left;
  if (left !== undefined) return passOf(applied, ownership, { end: 'broken', alarm: true, reason: left });
  const isCut = applied.some(({ cut }) => cut);
  return passOf(
    applied,
    ownership,
    isCut
      ? { end: 'cut', reason: 'the last line is cut off' }
      : { end: 'complete', reason: 'steps without a line' },
  );
}

function openResults(
  { provider, settings }: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
): Promise<ResultsOutcome> {
  return provider.streamResults(batch.provider_id ?? '', {
    idleTimeoutMs: settings.results_idle_timeout_ms,
    rate: {
      bytesPerSecond: settings.results_bytes_per_second_min,
      windowMs: settings.results_rate_window_ms,
    },
    signal: lease.signal,
  });
}

function endUnopened(opened: Exclude<ResultsOutcome, { readonly outcome: 'open' }>): End {
  switch (opened.outcome) {
    case 'archived':
      return { end: 'archived', reason: 'the provider no longer keeps the results' };
    case 'unavailable':
      return { end: 'broken', reason: opened.reason, retry_after_ms: opened.retry_after_ms };
    default:
      return { end: opened.outcome === 'not_found' ? 'missing' : 'broken', reason: opened.outcome };
  }
}

/**
 * Returns the end of a pass for a fault outside the lines: no line is given up, and the provider keeps the results.
 * Throws: all other errors.
 */
function endBroken(error: unknown): End {
  if (error instanceof ResultsInterrupted) return { end: 'broken', reason: error.message };
  if (judgeError(error) !== 'poison') throw error;
  return { end: 'broken', alarm: true, reason: error instanceof Error ? error.message : 'unknown' };
}

/** Builds the pass. The first alarm of its chunks leads the reason. */
function passOf(applied: readonly AppliedChunk[], ownership: Ownership, end: End): Pass {
  const total = joinChunks(applied);
  const [noticed = null] = total.alarms;
  const pass = {
    ...{ ...total, alarm: false, retry_after_ms: null, ...end, noticed },
    foreign: end.end === 'complete' && ownership.isForeign(),
    proven: ownership.isProven(),
  };
  return noticed === null ? pass : { ...pass, alarm: true, reason: `${noticed}; ${end.reason}` };
}

/** Reads the custom ids of requests without an answer. */
async function readOpenIds(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<ReadonlySet<string>> {
  const steps = await readOpenSteps(deps.db, batch.id, batch.request_count);
  return new Set(steps.map((key) => toCustomId(batch.nonce, key)));
}

/** Whether a line may change anything: true unless its step has its answer. */
function isDue(batch: ClaimedProviderBatch, line: Line, open: ReadonlySet<string>): boolean {
  const named = ownCustomId(batch, line);
  return named === null || open.has(named);
}
