import { transition } from '../machine/machine.ts';
import { batchMachine, type BatchState } from '../machine/batch.ts';

/** State of a batch and states of its runs. */
export interface BatchFacts {
  readonly state: BatchState;
  readonly open_runs: number;
  readonly completed_runs: number;
  readonly total: number;
}

/**
 * Returns the final state of a batch; null while a run is open.
 * `completed` if any run completed (or there are none), `failed` if none did, `cancelled` after a cancel request.
 */
export function decideFinish(batch: BatchFacts): BatchState | null {
  if (batch.open_runs > 0) return null;
  if (batch.state === 'cancelling') return transition(batchMachine, batch.state, 'finish_cancel');
  if (batch.state !== 'running' && batch.state !== 'paused') return null;
  const event = batch.completed_runs > 0 || batch.total === 0 ? 'complete' : 'fail';
  return transition(batchMachine, batch.state, event);
}
