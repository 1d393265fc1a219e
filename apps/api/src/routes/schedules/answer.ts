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
  const answers: ScheduleResponse[] = [];
  for (const schedule of schedules) {
    const { id, time_zone, max_cost_nanousd_per_month } = schedule;
    const spending =
      max_cost_nanousd_per_month === null
        ? null
        : await readScheduleSpending(db, id, monthOf(time_zone, now));
    answers.push(toScheduleResponse(schedule, lastTicks.get(id) ?? null, spending?.spent_nanousd ?? null));
  }
  return answers;
}
