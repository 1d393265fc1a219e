import type { PriceTable } from '@nightshift/agent-core';
import { readScheduleSpending, type Database, type ScheduleRow, type Tx } from '@nightshift/db';
import type { PreparedBatch } from '../prepare-batch.ts';
import { storeBatch, type StoredBatch } from '../store-batch.ts';
import { monthOf } from './rule.ts';

/** The moment of a tick, and the facts of its batch's checks. */
export interface TickSettings {
  readonly due_at: Date;
  /** The database's time. */
  readonly now: Date;
  readonly prices: PriceTable;
}

/**
 * Stores the batch of a tick. Its cap is the lower of its own and the money left in the month of the tick. Null: no money is
 * left. The tick's row is the caller's.
 * Throws: the refusal of the batch.
 */
export async function storeTickBatch(
  trx: Tx,
  schedule: ScheduleRow,
  prepared: PreparedBatch,
  { due_at, now, prices }: TickSettings,
): Promise<StoredBatch | null> {
  const left = await readLeft(trx, schedule, due_at);
  if (left !== null && left <= 0) return null;
  return storeBatch(trx, schedule.project_id, prepared, {
    ...{ now, prices, idempotency: null },
    tick: { schedule_id: schedule.id, due_at },
    max_cost_nanousd: left,
  });
}

/**
 * Reads the money that a tick may cost: the cap of its calendar month, less the cost of the month's ended batches and the
 * caps of the open batches. Null: no cap.
 */
async function readLeft(
  db: Database,
  { id, time_zone, max_cost_nanousd_per_month: cap }: ScheduleRow,
  due_at: Date,
): Promise<number | null> {
  if (cap === null) return null;
  const spending = await readScheduleSpending(db, [{ id, ...monthOf(time_zone, due_at) }]);
  const { committed_nanousd = 0 } = spending.get(id) ?? {};
  return committed_nanousd === null ? 0 : cap - committed_nanousd;
}
