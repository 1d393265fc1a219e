import { readLastTicks, readSchedule, readScheduleSpending, readNow, type ScheduleRow } from '@nightshift/db';
import { monthOf } from '@nightshift/intake';
import type { Context } from '../../context.ts';
import type { ScheduleResponse } from '../../schemas/schedule.ts';
import { toScheduleResponse } from '../../wire/to-schedule.ts';

/** Reads a schedule as an answer. Throws: `not_found`. */
export async function answerSchedule(context: Context, scheduleId: string): Promise<ScheduleResponse> {
  const [answer] = await answerSchedules(context, [
    await readSchedule(context.db, context.projectId, scheduleId),
  ]);
  if (answer === undefined) throw new Error('A schedule that was read has no answer.');
  return answer;
}

/** Adds the last tick and the spending of this month to schedules. */
export async function answerSchedules(
  { db }: Pick<Context, 'db'>,
  schedules: readonly ScheduleRow[],
): Promise<ScheduleResponse[]> {
  const now = await readNow(db);
  const lastTicks = await readLastTicks(
    db,
    schedules.map(({ id }) => id),
  );
  const spending = await readScheduleSpending(
    db,
    schedules
      .filter((schedule) => schedule.max_cost_nanousd_per_month !== null)
      .map(({ id, time_zone }) => ({ id, ...monthOf(time_zone, now) })),
  );
  return schedules.map((schedule) => {
    const { id, max_cost_nanousd_per_month: cap } = schedule;
    const spent = cap === null ? null : (spending.get(id)?.spent_nanousd ?? 0);
    return toScheduleResponse(schedule, lastTicks.get(id) ?? null, spent);
  });
}
