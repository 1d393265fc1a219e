import { transition } from '../machine/machine.ts';
import { batchMachine, type BatchState } from '../machine/batch.ts';

/** How a batch stands: its state and how its runs stand. */
export interface BatchFacts {
  readonly state: BatchState;
  readonly open_runs: number;
  readonly completed_runs: number;
  readonly total: number;
}

/**
 * The state in which a batch ends, or null while a run of it is open. `completed` if any run completed (or there are
 * none), `failed` if none did, `cancelled` if it was asked to stop.
 */
export function decideFinish(batch: BatchFacts): BatchState | null {
  if (batch.open_runs > 0) return null;
  if (batch.state === 'cancelling') return transition(batchMachine, batch.state, 'finish_cancel');
  if (batch.state !== 'running' && batch.state !== 'paused') return null;
  const event = batch.completed_runs > 0 || batch.total === 0 ? 'complete' : 'fail';
  return transition(batchMachine, batch.state, event);
}
