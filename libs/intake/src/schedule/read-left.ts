import { readScheduleSpending, type Database, type ScheduleRow } from '@nightshift/db';
import { monthOf } from './rule.ts';

/**
 * Reads the money that a tick may cost: the cap of its calendar month, less the cost of the month's ended batches and the
 * caps of the open ones. Null: no cap. At most zero: nothing is left.
 */
export async function readLeft(
  db: Database,
  { id, time_zone, max_cost_nanousd_per_month: cap }: ScheduleRow,
  due_at: Date,
): Promise<number | null> {
  if (cap === null) return null;
  const { committed_nanousd } = await readScheduleSpending(db, id, monthOf(time_zone, due_at));
  return committed_nanousd === null ? 0 : cap - committed_nanousd;
}
