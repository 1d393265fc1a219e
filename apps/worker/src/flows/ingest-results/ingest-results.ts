import { isMissingForGood, CRASHES_MAX, linesAfterCrashes, toCustomId } from '@nightshift/agent-core';
import {
  claimDueProviderBatches,
  commitDisproved,
  commitIngested,
  commitStreamAgain,
  resetCrashCount,
  inTransaction,
  judgeError,
  noteTried,
  readNow,
  readOpenDoubts,
  readOpenSteps,
  type ClaimedProviderBatch,
} from '@nightshift/db';
import type { HeldLease } from '../../leases/keeper.ts';
import { withLease } from '../../leases/with-lease.ts';
import { splitLines, type Line } from '../../provider/line-splitter.ts';
import { ResultsInterrupted } from '../../provider/port.ts';
import { applyAlone, ownCustomId } from './apply-alone.ts';
import { applyFew, applyHalving } from './apply-halving.ts';
import type { AppliedChunk } from './apply-result-lines.ts';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';
import { sentMsAgo } from '../../flow-parts/provider-time.ts';
import { settleOpenSteps } from '../../flow-parts/results/settle-open-steps.ts';
import { answersForOthers } from '../../flow-parts/results/sort-result-lines.ts';
import { jitterDelay } from '../../flow-parts/alone.ts';

const FLOW = 'ingest-results';
/** Milliseconds after the end of a batch from which an operator should hear that its results cannot be had. */
const RESULTS_LATE_MS = 3_600_000;
/** Characters of the lines of one transaction: long answers make smaller chunks, so that memory does not grow with them. */
const CHUNK_CHARS_MAX = 4_000_000;

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
 * A line that ends every worker, or blocks it for longer than its lease, is found by that: a chunk's worth of lines is applied in
 * ever smaller chunks, at last one by one, each noted before it is tried, and the one that is the cause is put aside.
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
    if (linesAfterCrashes(batch.crash_count, settings.chunk_lines) === 1) await jitterDelay(deps, lease);
    const isAdopted = (await readOpenDoubts(db)).some((doubt) => doubt.provider_batch_id === batch.id);
    const pass = await streamOnce(deps, batch, lease, isAdopted);
    const isMissing = pass.missing && (await missingForTooLong(deps, batch));
    const gone = pass.archived || isMissing || (pass.ended && batch.streams + 1 >= settings.streams_max);
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
    if (pass.complete && (await inTransaction(db, (trx) => commitIngested(trx, lease, pass.refused)))) {
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
        streamed: pass.ended,
        missing: pass.missing,
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
      ...(pass.missing ? { warning: true } : {}),
    };
  });
}

/** Whether the provider has not known the results for longer than any lag. */
async function missingForTooLong(deps: FlowDeps, batch: ClaimedProviderBatch): Promise<boolean> {
  if (batch.missing_since === null) return false;
  const facts = { missing_since: batch.missing_since, sent_ms_ago: sentMsAgo(deps, batch) };
  return isMissingForGood(facts, await readNow(deps.db), deps.settings.poll);
}

interface Pass {
  /** The stream ended by itself: what it did not hold is not there. */
  readonly complete: boolean;
  readonly archived: boolean;
  /** The stream ended by itself, though perhaps within a line. */
  readonly ended: boolean;
  /** The provider does not know the batch. Results that are merely not there yet are waited for, however long. */
  readonly missing: boolean;
  /** An operator should look. */
  readonly alarm: boolean;
  /** What an operator should hear of it, however it ended. */
  readonly noticed: string | null;
  /** It was adopted by mistake: a whole pass has lines for others' steps and none for its own. */
  readonly foreign: boolean;
  /** It is known to be ours: the provider gave its id to us, or a line of it has answered for a step, in this pass or before. */
  readonly proven: boolean;
  readonly reason: string;
  /** What the provider asked us to wait, if it did. */
  readonly retry_after_ms: number | null;
  readonly applied: number;
  readonly refused: number;
  readonly quarantined: number;
}

async function streamOnce(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  lease: HeldLease,
  isAdopted: boolean,
): Promise<Pass> {
  const none = {
    ...{ applied: 0, refused: 0, quarantined: 0 },
    ...{ complete: false, ended: false, archived: false, missing: false, alarm: false, foreign: false },
    ...{ retry_after_ms: null, proven: !isAdopted, noticed: null },
  };
  if (batch.crash_count > 0) await noteTried(deps.db, lease);
  // What ended a worker may have been put aside since, and is not to be read again. Read first: once the stream is open,
  // nothing may fail before it is iterated, which alone closes it.
  const open = batch.takeovers > 0 ? await readOpenIds(deps, batch) : null;
  const opened = await deps.provider.streamResults(batch.provider_id ?? '', {
    idleTimeoutMs: deps.settings.results_idle_timeout_ms,
    rate: {
      bytesPerSecond: deps.settings.results_bytes_per_second_min,
      windowMs: deps.settings.results_rate_window_ms,
    },
    signal: lease.signal,
  });
  if (opened.outcome === 'archived') {
    return { ...none, archived: true, reason: 'the provider no longer keeps the results' };
  }
  if (opened.outcome === 'unavailable') {
    return { ...none, reason: opened.reason, retry_after_ms: opened.retry_after_ms };
  }
  if (opened.outcome !== 'open') {
    return { ...none, missing: opened.outcome === 'not_found', reason: opened.outcome };
  }
  const total = { ...none, alarms: [] as string[] };
  // A batch that the provider gave us an id for is ours. One that was taken from a list is once a line says so.
  const proof = { isOurs: !isAdopted, isOthers: false, lines: 0 };
  const add = (chunk: AppliedChunk): void => {
    total.applied += chunk.applied;
    total.refused += chunk.refused;
    total.quarantined += chunk.quarantined;
    total.alarms.push(...chunk.alarms);
  };
  const ends = { cut: false };
  const { chunk_lines, chunks_in_flight } = deps.settings;
  let crashes = batch.crash_count;
  const smallChunk = linesAfterCrashes(crashes, chunk_lines);
  // What was too large for three is too large behind that as well.
  const largeChunk = linesAfterCrashes(Math.min(crashes, CRASHES_MAX), chunk_lines);
  /** Lines that are still to be applied in small chunks. */
  let careful = crashes >= CRASHES_MAX ? chunk_lines : 0;
  const left: string[] = [];
  /** How the pass ends, and besides that of what in it an operator should hear. */
  const ending = (end: Partial<Pass> & Pick<Pass, 'reason'>): Pass => {
    const [alarm] = total.alarms;
    const proven = proof.isOurs;
    if (alarm === undefined) return { ...total, proven, ...end };
    return { ...total, proven, ...end, alarm: true, noticed: alarm, reason: `${alarm}; ${end.reason}` };
  };
  try {
    const chunks = linesInChunks(splitLines(opened.chunks, deps.settings.line_bytes_max), () =>
      careful > 0 ? smallChunk : largeChunk,
    );
    await eachInFlight(chunks, careful > 0 ? 1 : chunks_in_flight, async (lines) => {
      lease.signal.throwIfAborted();
      proof.lines += lines.length;
      if (!proof.isOurs) {
        const theirs = answersForOthers(batch, lines);
        if (theirs === true) proof.isOthers = true;
        if (theirs === false) proof.isOurs = true;
        else return;
      }
      const due = open === null ? lines : lines.filter((line) => isDue(batch, line, open));
      total.refused += lines.length - due.length;
      const [line] = due;
      if (line === undefined) return;
      await deps.hooks?.('ingest.before_chunk');
      const isWhole = largeChunk === chunk_lines && due.length === lines.length;
      const chunk = await deps.chunkSlots.run(() => {
        // It may have waited for its turn.
        lease.signal.throwIfAborted();
        if (careful <= 0) return applyHalving(deps, batch, lease, due, isWhole);
        return smallChunk === 1
          ? applyAlone(deps, batch, lease, line, left)
          : applyFew(deps, batch, lease, due, left);
      });
      careful -= chunk.applied;
      ends.cut ||= chunk.cut;
      add(chunk);
      if (crashes > 0 && chunk.applied > 0 && careful <= 0) {
        crashes = 0;
        await resetCrashCount(deps.db, lease);
      }
      await deps.hooks?.('ingest.after_commit');
    });
  } catch (error) {
    if (error instanceof ResultsInterrupted) return ending({ reason: error.message });
    if (judgeError(error) !== 'poison') throw error;
    // A fault that is not in the lines: nothing is given up, and the results wait at the provider.
    return ending({ alarm: true, reason: error instanceof Error ? error.message : 'unknown' });
  }
  const [leftOver] = left;
  if (leftOver !== undefined) return ending({ alarm: true, reason: leftOver });
  if (ends.cut) return ending({ ended: true, reason: 'the last line is cut off' });
  // Its own file may be short, and hold a line of somebody else. Only one that says it all is theirs before the last pass.
  const foreign = proof.isOthers && !proof.isOurs && proof.lines >= batch.request_count;
  return ending({ foreign, complete: true, ended: true, reason: 'steps without a line' });
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

/**
 * Regroups lines into chunks of `size`, as it is when a chunk begins; fewer where they are long. What the source throws
 * is thrown after all lines before it: a file that always breaks at the same place gets on by what it holds.
 */
async function* linesInChunks(
  source: AsyncIterable<readonly Line[]>,
  size: () => number,
): AsyncGenerator<readonly Line[]> {
  let chunk: Line[] = [];
  let chars = 0;
  try {
    for await (const lines of source) {
      for (const line of lines) {
        chunk.push(line);
        chars += line.kind === 'line' ? line.text.length : line.head.length;
        if (chunk.length >= size() || chars >= CHUNK_CHARS_MAX) {
          yield chunk;
          chunk = [];
          chars = 0;
        }
      }
    }
  } catch (error) {
    if (chunk.length > 0) yield chunk;
    throw error;
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * Runs `work` on each item with at most `limit` under way, reading no further ahead: memory does not grow with the
 * file. The first error ends it, once what is under way has settled; one of `work` goes before one of the items.
 */
async function eachInFlight<T>(
  items: AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const errors: unknown[] = [];
  try {
    for await (const item of items) {
      const task: Promise<void> = work(item)
        .catch((error: unknown) => {
          errors.push(error);
        })
        .finally(() => underWay.delete(task));
      underWay.add(task);
      if (underWay.size >= limit) await Promise.race(underWay);
      if (errors.length > 0) break;
    }
  } catch (error) {
    await Promise.all(underWay);
    throw errors[0] ?? error;
  }
  await Promise.all(underWay);
  if (errors.length > 0) throw errors[0];
}
