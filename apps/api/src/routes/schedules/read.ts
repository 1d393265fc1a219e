import {
  deleteSchedule as commitDelete,
  inTransaction,
  listSchedules as readPage,
  listTicks as readTicks,
  readSchedule,
} from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkNext, linkPages, pageLimit, pageQuery, toPage } from '../../paging.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { moment } from '../../schemas/moment.ts';
import { scheduleResponse, tickResponse } from '../../schemas/schedule.ts';
import { toTickResponse } from '../../wire/to-schedule.ts';
import { answerSchedule, answerSchedules } from './answer.ts';

export const scheduleParams = z.object({ schedule_id: wireId('schedule') });

export function retrieveSchedule(app: App, context: Context): void {
  app.get(
    '/v1/schedules/:schedule_id',
    {
      schema: {
        operationId: 'retrieveSchedule',
        summary: 'Read a schedule, its next and last tick, and its spending',
        tags: ['schedules'],
        params: scheduleParams,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    async (request) => answerSchedule(context, request.params.schedule_id),
  );
}

export function listSchedules(app: App, context: Context): void {
  app.get(
    '/v1/schedules',
    {
      schema: {
        operationId: 'listSchedules',
        summary: 'List schedules',
        tags: ['schedules'],
        querystring: z.strictObject(pageQuery('schedule', { limit: 50, order: 'desc' })),
        response: { 200: z.array(scheduleResponse), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const { rows, is_cut } = await readPage(context.db, context.projectId, page);
      const schedules = await answerSchedules(context, rows);
      const ids = schedules.map(({ id }) => id);
      linkPages(request, reply, ids, page, is_cut);
      return schedules;
    },
  );
}

export function deleteSchedule(app: App, context: Context): void {
  app.delete(
    '/v1/schedules/:schedule_id',
    {
      schema: {
        operationId: 'deleteSchedule',
        summary: 'Delete a schedule and its ticks',
        description: 'Its batches stay and go on; they no longer name it.',
        tags: ['schedules'],
        params: scheduleParams,
        response: { 200: nullAnswer, ...problems },
      },
    },
    async (request) => {
      const { schedule_id } = request.params;
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, schedule_id));
      return null;
    },
  );
}

export function listTicks(app: App, context: Context): void {
  app.get(
    '/v1/schedules/:schedule_id/ticks',
    {
      schema: {
        operationId: 'listScheduleTicks',
        summary: 'List the ticks of a schedule, newest first',
        tags: ['schedules'],
        params: scheduleParams,
        querystring: z.strictObject({
          before: moment.optional().describe('The page holds the ticks before this `due_at`.'),
          limit: pageLimit(100),
        }),
        response: { 200: z.array(tickResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { before, limit } = request.query;
      const { id } = await readSchedule(context.db, context.projectId, request.params.schedule_id);
      const page = { before: before === undefined ? null : new Date(before), limit };
      const ticks = (await readTicks(context.db, id, page)).map(toTickResponse);
      const last = ticks.at(-1);
      if (last !== undefined && ticks.length === limit) linkNext(request, reply, 'before', last.due_at);
      return ticks;
    },
  );
}
