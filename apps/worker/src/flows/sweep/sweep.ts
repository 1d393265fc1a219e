import {
  commitBlocksReleased,
  commitOverdueRuns,
  commitWaitingRunsStarted,
  deleteOldIdempotencyKeys,
  dropOldUploads,
  forgetDeletedItems,
  forgetEvents,
  forgetToolTrials,
  forgetWorkStatistics,
  inTransaction,
  markFinishedBatches,
  markIdleBatches,
  queueFreedRuns,
  type OverdueReport,
  type Tx,
  type WaitingReport,
} from '@nightshift/db';
import type { FlowDeps, FlowReport } from '../../flow-parts/deps.ts';

const FLOW = 'sweep';
/** Longer than a key is honoured. */
export const IDEMPOTENCY_KEY_DAYS = 2;
export const DELETED_ITEM_DAYS = 7;
export const EVENT_DAYS = 30;
/** Longer than any upload may take. */
export const UPLOAD_HOURS = 24;
/** Longer than an idempotency key of a trial is honoured. */
export const TRIAL_HOURS = 25;
const RUNS_PER_SWEEP = 500;
const AGENTS_PER_SWEEP = 500;
const NONE_WAITING: WaitingReport = { started: 0, ended_batch_ids: [] };
const NONE_OVERDUE: OverdueReport = { ended: 0, released: 0, started: 0, ended_batch_ids: [] };

/**
 * Finds work that has no signal and no due row.
 * - batches whose last run ended just before a crash
 * - runs that wait for a conversation that has become free, or for a run of their sequence that has ended
 * - runs that wait for room in a budget that has room again
 * - waiting runs past their deadline
 * - deleted agents whose last run has ended
 * - staged lines of uploads whose API has died
 * Throws: the first failure, after all parts have run.
 */
export async function sweep(deps: FlowDeps): Promise<FlowReport> {
  const { db, bell, hooks, settings } = deps;
  const failures: unknown[] = [];
  const part = async <T>(work: () => Promise<T>, otherwise: T): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      failures.push(error);
      return otherwise;
    }
  };
  const committed = <T>(work: (trx: Tx) => Promise<T>, otherwise: T): Promise<T> =>
    part(
      () =>
        inTransaction(db, async (trx) => {
          const done = await work(trx);
          await hooks?.('sweep.before_commit');
          return done;
        }),
      otherwise,
    );

  const idle = await part(() => markIdleBatches(db), []);
  const overdue = await committed((trx) => commitOverdueRuns(trx, RUNS_PER_SWEEP), NONE_OVERDUE);
  if (overdue.released > 0) await bell.ring([{ kind: 'tools', id: '*' }]);
  const freed = await committed((trx) => queueFreedRuns(trx, settings.requests_max), 0);
  const { started, ended_batch_ids } = await committed(
    (trx) => commitWaitingRunsStarted(trx, RUNS_PER_SWEEP),
    NONE_WAITING,
  );
  const ended = [...new Set([...overdue.ended_batch_ids, ...ended_batch_ids])];
  const finished = await part(() => markFinishedBatches(db, ended), []);
  await part(() => inTransaction(db, (trx) => commitBlocksReleased(trx, AGENTS_PER_SWEEP)), undefined);
  await part(() => deleteOldIdempotencyKeys(db, IDEMPOTENCY_KEY_DAYS), undefined);
  await part(() => forgetDeletedItems(db, DELETED_ITEM_DAYS), undefined);
  await part(() => forgetEvents(db, EVENT_DAYS), undefined);
  await part(() => forgetWorkStatistics(db), undefined);
  await part(() => dropOldUploads(db, UPLOAD_HOURS), 0);
  await part(() => forgetToolTrials(db, TRIAL_HOURS), undefined);
  if (started + overdue.started + freed > 0) await bell.ring([{ kind: 'compose', id: '*' }]);
  const due = [...new Set([...idle, ...finished])];
  if (due.length > 0) await bell.ring(due.map((id) => ({ kind: 'finish', id })));
  if (failures.length > 0) throw failures[0];
  const worked = started === RUNS_PER_SWEEP || overdue.ended + overdue.released === RUNS_PER_SWEEP;
  return { flow: FLOW, worked, started, freed, idle: idle.length, overdue: overdue.ended + overdue.released };
}
