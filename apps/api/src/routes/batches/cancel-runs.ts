import {
  commitOverdueRuns,
  inTransaction,
  markFinishedBatches,
  requestRunCancels,
  type CancelChoice,
} from '@nightshift/db';
import type { Context } from '../../context.ts';

/** Waiting runs that end in one transaction. */
const RUNS_PER_COMMIT = 500;
/** Time after which the workers' sweep ends the rest. Unit: ms. */
const ENDING_MS_MAX = 1_000;

/**
 * Cancels open runs of a batch: waiting runs end now, those at the provider or in a tool when their answer or result arrives.
 * Throws: as `requestRunCancels`.
 */
export async function cancelRuns(context: Context, batchId: string, choice: CancelChoice): Promise<void> {
  const { db, bell, projectId } = context;
  const startedAt = performance.now();
  await inTransaction(db, (trx) => requestRunCancels(trx, projectId, batchId, choice));
  const endedBatchIds = new Set<string>();
  const report = { released: 0, started: 0 };
  for (let isMore = true; isMore;) {
    const done = await inTransaction(db, (trx) =>
      commitOverdueRuns(trx, RUNS_PER_COMMIT, undefined, batchId),
    );
    for (const id of done.ended_batch_ids) endedBatchIds.add(id);
    report.released += done.released;
    report.started += done.started;
    isMore = done.ended + done.released === RUNS_PER_COMMIT && performance.now() - startedAt < ENDING_MS_MAX;
  }
  const finished = await markFinishedBatches(db, [...endedBatchIds]);
  await bell.ring([
    // A step that is sealed and not sent is taken back.
    { kind: 'submit', id: '*' },
    ...(report.released > 0 ? [{ kind: 'tools', id: '*' } as const] : []),
    ...(report.started > 0 ? [{ kind: 'compose', id: '*' } as const] : []),
    ...finished.map((id) => ({ kind: 'finish', id }) as const),
  ]);
}
