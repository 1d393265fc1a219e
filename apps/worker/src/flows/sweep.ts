import {
  commitWaitingRunsStarted,
  deleteOldIdempotencyKeys,
  inTransaction,
  markIdleBatches,
  newId,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from './deps.ts';

const FLOW = 'sweep';
const IDEMPOTENCY_KEY_DAYS = 7;
const RUNS_PER_SWEEP = 500;

/**
 * Finds what no signal and no due row names: batches whose last run ended just before a crash, and runs that wait for
 * a conversation that has become free.
 */
export async function sweep(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, hooks } = deps;
  const idle = await markIdleBatches(db);
  const started = await inTransaction(db, async (trx) => {
    const count = await commitWaitingRunsStarted(trx, RUNS_PER_SWEEP, newId());
    await hooks?.('sweep.before_commit');
    return count;
  });
  await deleteOldIdempotencyKeys(db, IDEMPOTENCY_KEY_DAYS);
  if (started > 0) await bell.ring([{ kind: 'compose', id: '*' }]);
  if (idle.length > 0) await bell.ring(idle.map((id) => ({ kind: 'finish', id })));
  return { flow: FLOW, worked: started === RUNS_PER_SWEEP, started, idle: idle.length };
}
