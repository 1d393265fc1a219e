import { nanoUsdOf, NightshiftError } from '@nightshift/agent-core';
import { createSchedule as commitCreate, newId, readNow } from '@nightshift/db';
import { afterTick, assertRule } from '@nightshift/intake';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import {
  SCHEDULE_BYTES_MAX,
  scheduleInput,
  scheduleResponse,
  type ScheduleInput,
} from '../../schemas/schedule.ts';
import { answerSchedule } from './answer.ts';
import { assertBody, assertJitter } from './check-schedule.ts';

export function createSchedule(app: App, context: Context): void {
  app.post(
    '/v1/schedules',
    {
      bodyLimit: SCHEDULE_BYTES_MAX,
      schema: {
        operationId: 'createSchedule',
        summary: 'Create a schedule',
        description:
          'Each tick of the cron rule submits `body` as a batch, exactly once. The body is checked now as a batch would be.',
        tags: ['schedules'],
        headers: idempotencyHeaders,
        body: scheduleInput,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    (request, reply) =>
      makeOnce(context, request, reply, {
        prepare: () => prepareSchedule(context, request.body, (bytes) => holdMore(request, bytes)),
        make: async (trx, schedule) => {
          await commitCreate(trx, context.projectId, schedule);
          return { id: schedule.id };
        },
        show: ({ id }) => answerSchedule(context, id),
      }),
  );
}

/** Checks a schedule, and its body as a batch would be. Throws: `validation_failed`, and the refusals of a batch. */
async function prepareSchedule(context: Context, input: ScheduleInput, hold: (bytes: number) => void) {
  const { max_cost_usd_per_month, ends_at, ...rest } = input;
  const settings = {
    ...rest,
    ends_at: ends_at === null ? null : new Date(ends_at),
    max_cost_nanousd_per_month: max_cost_usd_per_month === null ? null : nanoUsdOf(max_cost_usd_per_month),
  };
  const now = await readNow(context.db);
  assertRule(settings, now);
  assertJitter(settings, now);
  const id = newId();
  const timing = afterTick({ id, ...settings }, now);
  if (timing.state === 'ended') throw endsBefore();
  await assertBody(context, settings, hold);
  return { id, ...settings, ...timing };
}

/** Makes the error of a schedule without a tick. */
export function endsBefore(): NightshiftError {
  const message = 'is before the next tick of the rule';
  return new NightshiftError('validation_failed', `/ends_at ${message}.`, {
    fields: [{ path: '/ends_at', message }],
  });
}
