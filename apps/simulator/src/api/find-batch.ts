import { apiFailure } from '../api-error.ts';
import type { Batch } from '../batch.ts';
import type { FaultContext } from '../faults/fault.ts';
import type { SimulatorState } from '../state.ts';
import type { Exchange } from './exchange.ts';

/** What faults may look at during this request. */
export function faultContext(state: SimulatorState, ruleId: string): FaultContext {
  return { nowMs: state.clock.now(), seed: state.seed, ruleId };
}

/** The batch that the path names, if the caller's workspace has it; otherwise throws the provider's 404. */
export function findBatch(state: SimulatorState, exchange: Exchange): Batch {
  const { target, workspace, faults } = exchange;
  const batch = target === null ? undefined : state.batches.get(target);
  const hidden = (found: Batch): boolean =>
    faults.some((fault) => fault.hides?.(found, faultContext(state, fault.ruleId)) === true);
  // A deleted batch and one of another workspace are as unknown as one that never was.
  if (batch?.workspace !== workspace || batch.deleted_at_ms !== null || hidden(batch)) {
    throw apiFailure('not_found_error', `No message batch found with id "${target ?? ''}".`);
  }
  return batch;
}
