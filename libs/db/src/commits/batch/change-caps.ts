import { NightshiftError, noRoomReason, type Amount, type Cap } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { lockBatchState } from '../../locks/batch/lock-batch.ts';
import { lockBudgets } from '../../locks/batch/lock-budgets.ts';
import { setRunning } from './pause-batch.ts';

/** Caps to set; null removes a cap, absent keeps it. */
export type CapChange = { readonly [K in keyof Cap]?: Cap[K] | undefined };

const FIELDS = { cost_nanousd: 'max_cost_usd', output_tokens: 'max_output_tokens' } as const;

/**
 * Sets the caps of a batch and returns the number of runs queued again.
 * A batch paused at its cap resumes, and its waiting runs are queued, unless the new cap is too low for the next step: then it
 * stays paused with the reason. A batch paused by an operator stays paused.
 * Throws: `not_found`; `conflict` for an ended batch, or for a batch accepted without a cap, whose requests have no
 * reservations; `validation_failed` for a cap below the spending and reservations.
 */
export async function changeCaps(
  trx: Tx,
  projectId: string,
  batchId: string,
  change: CapChange,
): Promise<number> {
  const state = await lockBatchState(trx, projectId, batchId);
  if (state !== 'running' && state !== 'paused') {
    throw new NightshiftError('conflict', `The batch is ${state}; its caps no longer matter.`);
  }
  const budget = (await lockBudgets(trx, [batchId])).get(batchId);
  if (budget === undefined) {
    const message =
      'The batch was submitted without a cap and cannot get one: nothing was reserved for its requests.';
    throw new NightshiftError('conflict', message);
  }
  const { spent, reserved } = budget;
  const cap: Cap = {
    cost_nanousd: change.cost_nanousd === undefined ? budget.cap.cost_nanousd : change.cost_nanousd,
    output_tokens: change.output_tokens === undefined ? budget.cap.output_tokens : change.output_tokens,
  };
  for (const kind of ['cost_nanousd', 'output_tokens'] as const satisfies readonly (keyof Amount)[]) {
    const used = spent[kind] + reserved[kind];
    const limit = cap[kind];
    if (limit === null || limit >= used) continue;
    const path = `/${FIELDS[kind]}`;
    const figure = kind === 'cost_nanousd' ? `${used / 1e9} dollars` : `${used} tokens`;
    const message = `must not be below what is spent and reserved: ${figure}`;
    throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
  }
  await trx
    .updateTable('batch_budget')
    .set({ max_cost_nanousd: cap.cost_nanousd, max_output_tokens: cap.output_tokens })
    .where('batch_id', '=', batchId)
    .execute();
  await trx.updateTable('batch').set({ updated_at: NOW }).where('id', '=', batchId).execute();
  if (budget.room === 'open') return 0;
  const reason = budget.needs === null ? null : noRoomReason({ ...budget, cap }, budget.needs);
  if (state !== 'paused' || reason === null) return setRunning(trx, batchId);
  await trx.updateTable('batch').set({ state_reason: reason }).where('id', '=', batchId).execute();
  return 0;
}
