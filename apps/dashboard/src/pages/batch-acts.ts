import type { Batch } from '@nightshift/client';
import { nightshift } from '../api/client.ts';

export type BatchAct = 'pause' | 'resume' | 'cancel' | 'retry';

/** What a person may do with a batch in each state. */
const ALLOWED: Readonly<Record<Batch['state'], readonly BatchAct[]>> = {
  receiving: ['cancel'],
  running: ['pause', 'cancel'],
  paused: ['resume', 'cancel'],
  cancelling: [],
  completed: ['retry'],
  cancelled: ['retry'],
  failed: ['retry'],
};

/** Runs that a retry would try again, unless another batch has already. */
export const failedRuns = ({ counts }: Batch): number => counts.failed + counts.expired;

/** Tells whether an act fits the state of a batch. A retry needs failed runs. */
export function isAllowed(act: BatchAct, batch: Batch): boolean {
  return ALLOWED[batch.state].includes(act) && (act !== 'retry' || failedRuns(batch) > 0);
}

/** Carries out an act on a batch. */
export function carryOut(act: BatchAct, { id }: Batch): Promise<unknown> {
  return nightshift.batches[act](id);
}
