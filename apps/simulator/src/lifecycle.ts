import { rm } from 'node:fs/promises';
import { apiFailure } from './api-error.ts';
import { countsAtStart } from './batch.ts';
import type { Batch, BatchItem } from './batch.ts';
import { idFrom } from './draws.ts';
import type { EndCause, Ending } from './fates.ts';
import type { Fault } from './faults/fault.ts';
import { latencyOf } from './latency.ts';
import { writeResults } from './results/write-results.ts';
import type { SimulatorState } from './state.ts';

/** A body with a valid envelope. */
export interface AcceptedBody {
  readonly workspace: string;
  readonly version: string;
  readonly betas: readonly string[];
  readonly bodyPath: string;
  readonly bodyBytes: number;
  readonly items: readonly BatchItem[];
}

function stopTimers(batch: Batch): void {
  for (const cancel of batch.timers) cancel();
  batch.timers = [];
}

/** Creates a batch from an accepted body and schedules its end. */
export function createBatch(state: SimulatorState, body: AcceptedBody, faults: readonly Fault[]): Batch {
  const { clock, settings, seed, batches } = state;
  const nowMs = Math.floor(clock.now());
  const seq = batches.all().length + 1;
  const count = body.items.length;
  const batch: Batch = {
    id: idFrom('msgbatch_01', 22, seed, state.instance, 'batch', seq),
    seq,
    workspace: body.workspace,
    created_at_ms: nowMs,
    expires_at_ms: nowMs + settings.expires_after_ms,
    count,
    version: body.version,
    betas: body.betas,
    body_bytes: body.bodyBytes,
    body_path: body.bodyPath,
    items: body.items,
    status: 'in_progress',
    counts: countsAtStart(count),
    ends_at_ms: nowMs + latencyOf(settings.latency, seed, seq),
    cancel_initiated_at_ms: null,
    console_cancel_at_ms: null,
    ended_at_ms: null,
    archived_at_ms: null,
    deleted_at_ms: null,
    results_path: null,
    results_bytes: 0,
    timers: [],
    ending: null,
  };
  for (const fault of faults) fault.created?.(batch);
  batches.add(batch);
  state.queued += count;
  const schedule = (dueMs: number, task: () => void | Promise<void>): void => {
    batch.timers.push(clock.schedule(dueMs, task));
  };
  if (batch.ends_at_ms < batch.expires_at_ms)
    schedule(batch.ends_at_ms, () => endBatch(state, batch, 'done'));
  else schedule(batch.expires_at_ms, () => endBatch(state, batch, 'expired'));
  if (batch.console_cancel_at_ms !== null)
    schedule(batch.console_cancel_at_ms, () => cancelBatch(state, batch, []));
  return batch;
}

function progressOf(batch: Batch, atMs: number): number {
  if (batch.ends_at_ms === Number.POSITIVE_INFINITY) return 0;
  const total = batch.ends_at_ms - batch.created_at_ms;
  return total <= 0 ? 1 : Math.min(1, Math.max(0, (atMs - batch.created_at_ms) / total));
}

async function settle(state: SimulatorState, batch: Batch, ending: Ending): Promise<void> {
  await writeResults(state, batch, ending);
  stopTimers(batch);
  // A reset has deleted this batch.
  if (state.batches.get(batch.id) !== batch) return removeFiles(batch);
  batch.status = 'ended';
  batch.ended_at_ms = Math.floor(state.clock.now());
  state.queued -= batch.count;
  const archiveAtMs = batch.created_at_ms + state.settings.archive_after_ms;
  batch.timers.push(state.clock.schedule(archiveAtMs, () => archiveBatch(state, batch)));
  // Last, since a failure must not prevent the end and the billing.
  if (!state.settings.keep_bodies) await removeBody(batch);
}

/** Deletes a body after its use. A failure is written to standard error; the body is then deleted with the results. */
async function removeBody(batch: Batch): Promise<void> {
  batch.items = null;
  if (batch.body_path === null) return;
  try {
    await rm(batch.body_path, { force: true });
    batch.body_path = null;
  } catch (error) {
    process.stderr.write(
      `simulator: the body of ${batch.id} cannot be removed: ${(error as Error).message}\n`,
    );
  }
}

/** Pause before a failed end is retried, for example after a full disk. Unit: ms of the simulator's clock. */
const END_AGAIN_MS = 5_000;

/**
 * Ends a batch: writes its results, then shows `ended`. For a batch that is ending or has ended it only waits.
 * Throws: when the results cannot be written; they are retried later.
 */
export async function endBatch(state: SimulatorState, batch: Batch, cause: EndCause): Promise<void> {
  if (batch.status === 'ended') return;
  if (batch.ending !== null) return batch.ending;
  const interruptedAt = batch.cancel_initiated_at_ms ?? state.clock.now();
  const progress = cause === 'done' ? 1 : progressOf(batch, interruptedAt);
  batch.ending = settle(state, batch, { cause, progress }).catch((error: unknown) => {
    if (state.stopped.aborted) return;
    batch.ending = null;
    if (state.batches.get(batch.id) === batch)
      batch.timers.push(
        state.clock.schedule(state.clock.now() + END_AGAIN_MS, () => endBatch(state, batch, cause)),
      );
    throw error;
  });
  return batch.ending;
}

/**
 * Starts to cancel a batch. Idempotent.
 * Throws: ApiFailure for an ended batch, if so configured.
 */
export function cancelBatch(state: SimulatorState, batch: Batch, faults: readonly Fault[]): void {
  const { cancel } = state.settings;
  if (batch.status === 'ended') {
    if (cancel.after_end === 'unchanged') return;
    throw apiFailure('invalid_request_error', `Batch ${batch.id} has already ended and cannot be canceled.`);
  }
  if (batch.status === 'canceling') return;
  batch.status = 'canceling';
  batch.cancel_initiated_at_ms = Math.floor(state.clock.now());
  const override = faults.map((fault) => fault.canceling?.(batch)).find((value) => value !== undefined);
  if (override === 'ignore' || (override === undefined && cancel.behaviour === 'ignored')) return;
  const dueMs = batch.cancel_initiated_at_ms + (override ?? cancel.delay_ms);
  batch.timers.push(state.clock.schedule(dueMs, () => endBatch(state, batch, 'canceled')));
}

/**
 * Deletes the results; the batch itself stays visible.
 * Throws: RangeError when it has not ended.
 */
export async function archiveBatch(state: SimulatorState, batch: Batch): Promise<void> {
  if (batch.status !== 'ended') throw new RangeError(`batch ${batch.id} has not ended`);
  if (batch.archived_at_ms !== null || batch.deleted_at_ms !== null) return;
  batch.archived_at_ms = Math.floor(state.clock.now());
  await removeFiles(batch);
}

/**
 * Deletes an ended batch.
 * Throws: ApiFailure when it has not ended.
 */
export async function deleteBatch(state: SimulatorState, batch: Batch): Promise<void> {
  if (batch.status !== 'ended') {
    throw apiFailure(
      'invalid_request_error',
      `Batch ${batch.id} is still in progress; cancel it and wait before deleting it.`,
    );
  }
  batch.deleted_at_ms = Math.floor(state.clock.now());
  await removeFiles(batch);
}

/** Cancels the scheduled end and expiry of a batch. */
export function stallBatch(batch: Batch): void {
  if (batch.status !== 'ended') {
    stopTimers(batch);
    batch.ends_at_ms = Number.POSITIVE_INFINITY;
  }
}

/** Deletes a batch's files and cancels its timers. */
export async function removeFiles(batch: Batch): Promise<void> {
  stopTimers(batch);
  const paths = [batch.body_path, batch.results_path].filter((path) => path !== null);
  batch.body_path = null;
  batch.results_path = null;
  batch.items = null;
  await Promise.all(paths.map((path) => rm(path, { force: true })));
}
