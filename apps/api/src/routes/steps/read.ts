import { listSteps as readPage, readRun, readStep } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { linkPages, pageQuery, toPage } from '../../paging.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { momentOrDay } from '../../schemas/moment.ts';
import { stepResponse } from '../../schemas/run.ts';
import { toStepResponse } from '../../wire/to-step.ts';

export function retrieveStep(app: App, context: Context): void {
  app.get(
    '/v1/steps/:step_id',
    {
      schema: {
        operationId: 'retrieveStep',
        summary: 'Read an attempt of a step',
        tags: ['steps'],
        params: z.object({ step_id: wireId('step') }),
        response: { 200: stepResponse, ...problems },
      },
    },
    async (request) => toStepResponse(await readStep(context.db, context.projectId, request.params.step_id)),
  );
}

export function listSteps(app: App, context: Context): void {
  app.get(
    '/v1/steps',
    {
      schema: {
        operationId: 'listSteps',
        summary: 'List steps',
        description: 'Sorted by the age of their run, then by their order in the run.',
        tags: ['steps'],
        querystring: z.strictObject({
          ...pageQuery('step', { limit: 50, order: 'desc' }),
          agent_id: wireId('agent').optional(),
          run_id: wireId('run').optional().describe('Beyond Letta.'),
          model: z.string().optional(),
          start_date: momentOrDay.optional(),
          end_date: momentOrDay.optional(),
        }),
        response: { 200: z.array(stepResponse), ...problems },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const page = toPage(query);
      const rows = await readPage(context.db, context.projectId, page, {
        run_id: query.run_id ?? null,
        agent_id: query.agent_id ?? null,
        model: query.model ?? null,
        from: query.start_date ?? null,
        to: query.end_date ?? null,
      });
      const steps = rows.map(toStepResponse);
      linkPages(
        request,
        reply,
        steps.map((step) => step.id),
        page,
      );
      return steps;
    },
  );
}

export function listStepsOfRun(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id/steps',
    {
      schema: {
        operationId: 'listStepsOfRun',
        summary: 'List the steps of a run',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        querystring: z.strictObject(pageQuery('step', { limit: 100, order: 'desc' })),
        response: { 200: z.array(stepResponse), ...problems },
      },
    },
    async (request, reply) => {
      const page = toPage(request.query);
      const run = await readRun(context.db, context.projectId, request.params.run_id);
      const filter = { run_id: run.id, agent_id: null, model: null, from: null, to: null };
      const steps = (await readPage(context.db, context.projectId, page, filter)).map(toStepResponse);
      linkPages(
        request,
        reply,
        steps.map((step) => step.id),
        page,
      );
      return steps;
    },
  );
}
