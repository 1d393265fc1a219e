import { readNow, readSchedule } from '@nightshift/db';
import { assertRule, describeRule, nextTicks, type ScheduleRule } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { previewResponse, ruleInput } from '../../schemas/schedule.ts';
import { scheduleParams } from './read.ts';

export function previewRule(app: App, context: Context): void {
  app.post(
    '/v1/schedules/preview',
    {
      schema: {
        operationId: 'previewRule',
        summary: 'Show the next times of a rule, without a schedule',
        tags: ['schedules'],
        body: ruleInput,
        response: { 200: previewResponse, ...problems },
      },
    },
    async (request) => {
      const { count, ...rule } = request.body;
      return preview(rule, await readNow(context.db), count);
    },
  );
}

export function previewSchedule(app: App, context: Context): void {
  app.get(
    '/v1/schedules/:schedule_id/preview',
    {
      schema: {
        operationId: 'previewSchedule',
        summary: 'Show the next times of a schedule, also while it is paused',
        tags: ['schedules'],
        params: scheduleParams,
        querystring: z.strictObject({ count: z.int().min(1).max(100).default(5) }),
        response: { 200: previewResponse, ...problems },
      },
    },
    async (request) => {
      const schedule = await readSchedule(context.db, context.projectId, request.params.schedule_id);
      const shown = preview(schedule, await readNow(context.db), request.query.count);
      const { ends_at } = schedule;
      if (ends_at === null) return shown;
      return { ...shown, next_ticks: shown.next_ticks.filter((tick) => new Date(tick) <= ends_at) };
    },
  );
}

function preview(rule: ScheduleRule, now: Date, count: number) {
  assertRule(rule, now);
  return {
    description: describeRule(rule),
    next_ticks: nextTicks(rule, now, count).map((tick) => tick.toISOString()),
  };
}
