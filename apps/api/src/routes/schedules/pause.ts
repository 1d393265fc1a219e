import {
  commitSchedulePaused,
  commitScheduleResumed,
  lockSchedule,
  readLastTickDueAt,
  readNow,
  type Tx,
} from '@nightshift/db';
import { afterTick } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { scheduleResponse } from '../../schemas/schedule.ts';
import { trimmedName } from '../../schemas/text.ts';
import { answerSchedule } from './answer.ts';
import { conflict } from './check-schedule.ts';
import { scheduleParams } from './read.ts';

const REASON_CHARS_MAX = 500;

const pauseInput = z
  .strictObject({
    reason: trimmedName(REASON_CHARS_MAX)
      .nullish()
      .describe('Shown as `state_reason`. A schedule that is paused already gets it too.'),
  })
  .meta({ id: 'SchedulePause', examples: [{ reason: 'The prices of March are wrong.' }] });

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
        headers: idempotencyHeaders,
        body: pauseInput.nullish(),
        response: { 200: scheduleResponse, ...problems },
      },
    },
    (request, reply) => {
      const { schedule_id } = request.params;
      const reason = request.body?.reason ?? null;
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) => {
          const { state } = await lockSchedule(trx, context.projectId, schedule_id);
          if (state === 'ended') throw conflict(schedule_id, 'has ended.');
          if (state === 'active' || reason !== null)
            await commitSchedulePaused(
              trx,
              schedule_id,
              reason ?? 'Paused by request; resume it to continue.',
            );
          return {};
        },
        show: () => answerSchedule(context, schedule_id),
      });
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
        headers: idempotencyHeaders,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    (request, reply) => {
      const { schedule_id } = request.params;
      return makeOnce(context, request, reply, {
        prepare: () => undefined,
        make: async (trx) => {
          await resume(trx, context.projectId, schedule_id);
          return {};
        },
        show: () => answerSchedule(context, schedule_id),
      });
    },
  );
}

async function resume(trx: Tx, projectId: string, scheduleId: string): Promise<void> {
  const schedule = await lockSchedule(trx, projectId, scheduleId);
  if (schedule.state === 'active') return;
  const timing = afterTick(schedule, laterOf(await readNow(trx), await readLastTickDueAt(trx, scheduleId)));
  if (timing.state === 'ended')
    throw conflict(scheduleId, 'has no further tick: change `ends_at` or `cron`.');
  await commitScheduleResumed(trx, scheduleId, timing);
}

/** Returns the later time: after a clock was set back, a moment may have a tick already. */
export function laterOf(now: Date, tick: Date | null): Date {
  return tick !== null && tick > now ? tick : now;
}
