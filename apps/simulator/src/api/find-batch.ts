import { apiFailure } from '../api-error.ts';
import type { Batch } from '../batch.ts';
import type { FaultContext } from '../faults/fault.ts';
import type { SimulatorState } from '../state.ts';
import type { Exchange } from './exchange.ts';

/** Returns the circumstances that faults may inspect in this request. */
export function faultContext(state: SimulatorState, ruleId: string): FaultContext {
  return { nowMs: state.clock.now(), seed: state.seed, ruleId };
}

/**
 * Returns the batch in the path.
 * Throws: the provider's 404 when the caller's workspace does not have it.
 */
export function findBatch(state: SimulatorState, exchange: Exchange): Batch {
  const { target, workspace, faults } = exchange;
  const batch = target === null ? undefined : state.batches.get(target);
  const hidden = (found: Batch): boolean =>
    faults.some((fault) => fault.hides?.(found, faultContext(state, fault.ruleId)) === true);
  // Batches deleted or of other workspaces look like unknown batches.
  if (batch?.workspace !== workspace || batch.deleted_at_ms !== null || hidden(batch)) {
    throw apiFailure('not_found_error', `No message batch found with id "${target ?? ''}".`);
  }
  return batch;
}
