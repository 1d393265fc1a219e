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
   * `complete`: the stream ended by itself, and what it did not hold is not there. `cut`: within a line. `missing`: the
   * provider does not know the batch. `archived`: it no longer keeps the results. `broken`: any other way.
   */
  readonly end: 'complete' | 'cut' | 'missing' | 'archived' | 'broken';
  readonly reason: string;
  /** An operator should look. */
  readonly alarm: boolean;
  /** The first alarm of its chunks, however it ended. */
  readonly noticed: string | null;
  readonly foreign: boolean;
  readonly proven: boolean;
  /** Milliseconds that the provider asked us to wait; null for none. */
  readonly retry_after_ms: number | null;
}

/** How a pass ended. */
type End = Pick<Pass, 'end' | 'reason'> & Partial<Pick<Pass, 'alarm' | 'retry_after_ms'>>;

/**
 * Streams results once: open → split → prove ownership → leave out steps that have their answer → apply. Chunks are
 * applied by {@link isolateCrashes}, some at a time.
 */
export async function streamPass(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  isAdopted: boolean,
): Promise<Pass> {
  if (batch.crash_count > 0) await noteTried(deps.db, lease);
  // A line that ended a worker may have been set aside since, and is not to be read again. Read first: once the stream is open,
  // nothing may fail before it is iterated, which alone closes it.
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
      // It may have waited for its turn.
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

/** A fault that is not in the lines gives none of them up: the results wait at the provider. Throws all other errors. */
function endBroken(error: unknown): End {
  if (error instanceof ResultsInterrupted) return { end: 'broken', reason: error.message };
  if (judgeError(error) !== 'poison') throw error;
  return { end: 'broken', alarm: true, reason: error instanceof Error ? error.message : 'unknown' };
}

/** The pass with its end. The first alarm of its chunks leads the reason. */
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

/** The custom ids of the requests that have no answer yet. */
async function readOpenIds(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<ReadonlySet<string>> {
  const steps = await readOpenSteps(deps.db, batch.id, batch.request_count);
  return new Set(steps.map((key) => toCustomId(batch.nonce, key)));
}

/** Whether a line may change anything: all but those whose step has its answer. */
function isDue(batch: ClaimedProviderBatch, line: Line, open: ReadonlySet<string>): boolean {
  const named = ownCustomId(batch, line);
  return named === null || open.has(named);
}
