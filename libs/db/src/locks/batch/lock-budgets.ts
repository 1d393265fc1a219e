import type { Account, Amount } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';

/** The caps, spending and reservations of a capped batch. */
export interface LockedBudget extends Account {
  readonly batch_id: string;
  /** Whether its ready runs wait for room; see the table. */
  readonly room: 'open' | 'short' | 'freed';
  /** Use of the step for which it last paused; null: none. */
  readonly needs: Amount | null;
}

/**
 * Locks the budgets of batches in batch id order: after runs, before counts and conversations. Batches without a cap have
 * no budget and are left out.
 */
export async function lockBudgets(
  trx: Tx,
  batchIds: readonly string[],
): Promise<ReadonlyMap<string, LockedBudget>> {
  const rows = await trx
    .selectFrom('batch_budget')
    .select([
      'batch_id',
      'room',
      'max_cost_nanousd',
      'max_output_tokens',
      'spent_nanousd',
      'spent_output_tokens',
    ])
    .select(['reserved_nanousd', 'reserved_output_tokens', 'needs_nanousd', 'needs_output_tokens'])
    .where('batch_id', '=', anyUuid(batchIds))
    .orderBy('batch_id')
    .forNoKeyUpdate()
    .execute();
  return new Map(
    rows.map((row) => [
      row.batch_id,
      {
        batch_id: row.batch_id,
        room: row.room,
        needs:
          row.needs_nanousd === null || row.needs_output_tokens === null
            ? null
            : { cost_nanousd: row.needs_nanousd, output_tokens: row.needs_output_tokens },
        cap: { cost_nanousd: row.max_cost_nanousd, output_tokens: row.max_output_tokens },
        spent: { cost_nanousd: row.spent_nanousd, output_tokens: row.spent_output_tokens },
        reserved: { cost_nanousd: row.reserved_nanousd, output_tokens: row.reserved_output_tokens },
      },
    ]),
  );
}
