import {
  commitSchedulePaused,
  commitScheduleResumed,
  inTransaction,
  lockSchedule,
  readLastTickDueAt,
  readNow,
} from '@nightshift/db';
import { afterTick } from '@nightshift/intake';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { scheduleResponse } from '../../schemas/schedule.ts';
import { answerSchedule } from './answer.ts';
import { conflict } from './check-schedule.ts';
import { scheduleParams } from './read.ts';

/** Pauses a schedule until it is resumed. A second pause is no error. */
export function pauseSchedule(app: App, context: Context): void {
  app.post(
    '/v1/schedules/:schedule_id/pause',
    {
      schema: {
        operationId: 'pauseSchedule',
        summary: 'Pause a schedule',
        description:
          'No tick starts until it is resumed; a waiting one is skipped. Batches in progress go on.',
        tags: ['schedules'],
        params: scheduleParams,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    async (request) => {
      const { schedule_id } = request.params;
      await inTransaction(context.db, async (trx) => {
        const { state } = await lockSchedule(trx, context.projectId, schedule_id);
        if (state === 'ended') throw conflict(schedule_id, 'has ended.');
        if (state === 'active')
          await commitSchedulePaused(trx, schedule_id, 'Paused by request; resume it to continue.');
      });
      return answerSchedule(context, schedule_id);
    },
  );
}

/** Resumes a paused schedule. Resuming an active one is no error. */
export function resumeSchedule(app: App, context: Context): void {
  app.post(
    '/v1/schedules/:schedule_id/resume',
    {
      schema: {
        operationId: 'resumeSchedule',
        summary: 'Resume a schedule',
        description:
          'It goes on at the next time from now; ticks of the pause are not made up. Failed ticks count anew.',
        tags: ['schedules'],
        params: scheduleParams,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    async (request) => {
      const { schedule_id } = request.params;
      await inTransaction(context.db, async (trx) => {
        const schedule = await lockSchedule(trx, context.projectId, schedule_id);
        if (schedule.state === 'active') return;
        const timing = afterTick(
          schedule,
          laterOf(await readNow(trx), await readLastTickDueAt(trx, schedule_id)),
        );
        if (timing.state === 'ended')
          throw conflict(schedule_id, 'has no further tick: change `ends_at` or `cron`.');
        await commitScheduleResumed(trx, schedule_id, timing);
      });
      return answerSchedule(context, schedule_id);
    },
  );
}

/** Returns the later time: after a clock was set back, a moment may have a tick already. */
export function laterOf(now: Date, tick: Date | null): Date {
  return tick !== null && tick > now ? tick : now;
}
