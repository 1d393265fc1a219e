import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { SCHEDULE_COLUMNS, unknownSchedule, type ScheduleRow } from '../../reads/schedule/schedules.ts';

/**
 * Locks a schedule until the transaction ends. Its ticks take turns by this lock.
 * Throws: `not_found`. Index: primary key.
 */
export async function lockSchedule(trx: Tx, projectId: string, scheduleId: string): Promise<ScheduleRow> {
  const schedule = await trx
    .selectFrom('schedule')
    .select(SCHEDULE_COLUMNS)
    .where('id', '=', scheduleId)
    .where('project_id', '=', projectId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (schedule === undefined) throw unknownSchedule(scheduleId);
  return schedule;
}

/** Locks a due schedule; null if it is no longer due, or another transaction holds it. Index: primary key. */
export async function lockDueSchedule(trx: Tx, scheduleId: string): Promise<ScheduleRow | null> {
  const schedule = await trx
    .selectFrom('schedule')
    .select(SCHEDULE_COLUMNS)
    .where('id', '=', scheduleId)
    .where('next_due_at', '<=', NOW)
    .forNoKeyUpdate()
    .skipLocked()
    .executeTakeFirst();
  return schedule ?? null;
}
