import {
  commitBlocksReleased,
  commitOverdueRuns,
  commitWaitingRunsStarted,
  deleteOldIdempotencyKeys,
  inTransaction,
  markFinishedBatches,
  markIdleBatches,
  newId,
  queueFreedRuns,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from './deps.ts';
import { tallySlot } from './settle-open-steps.ts';

const FLOW = 'sweep';
const IDEMPOTENCY_KEY_DAYS = 7;
const RUNS_PER_SWEEP = 500;
const AGENTS_PER_SWEEP = 500;

/**
 * Finds what no signal and no due row names: batches whose last run ended just before a crash, runs that wait for a
 * conversation that has become free, runs that wait for room in a budget where some was made, runs that wait although their
 * deadline has passed, and deleted agents whose last run has ended.
 */
export async function sweep(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, hooks, settings } = deps;
  const idle = await markIdleBatches(db);
  const overdue = await inTransaction(db, async (trx) => {
    const done = await commitOverdueRuns(trx, RUNS_PER_SWEEP, {
      ready_chunk_id: newId(),
      tools_chunk_id: newId(),
      tally_slot: tallySlot(),
    });
    await hooks?.('sweep.before_commit');
    return done;
  });
  if (overdue.released > 0) await bell.ring([{ kind: 'tools', id: '*' }]);
  const finished = await markFinishedBatches(db, overdue.ended_batch_ids);
  const { count: started, freed } = await inTransaction(db, async (trx) => {
    const freed = await queueFreedRuns(trx, settings.requests_max);
    const count = await commitWaitingRunsStarted(trx, RUNS_PER_SWEEP, newId());
    await hooks?.('sweep.before_commit');
    return { count, freed };
  });
  await inTransaction(db, (trx) => commitBlocksReleased(trx, AGENTS_PER_SWEEP));
  await deleteOldIdempotencyKeys(db, IDEMPOTENCY_KEY_DAYS);
  if (started + overdue.started + freed > 0) await bell.ring([{ kind: 'compose', id: '*' }]);
  const due = [...new Set([...idle, ...finished])];
  if (due.length > 0) await bell.ring(due.map((id) => ({ kind: 'finish', id })));
  const worked = started === RUNS_PER_SWEEP || overdue.ended + overdue.released === RUNS_PER_SWEEP;
  return { flow: FLOW, worked, started, freed, idle: idle.length, overdue: overdue.ended + overdue.released };
}
