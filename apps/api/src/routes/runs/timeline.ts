import { deriveTimeline, stepUuid, toWireId } from '@nightshift/agent-core';
import { readTimedRun } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { runTimeline } from '../../schemas/run-timeline.ts';

export function retrieveRunTimeline(app: App, context: Context): void {
  app.get(
    '/v1/runs/:run_id/timeline',
    {
      schema: {
        operationId: 'retrieveRunTimeline',
        summary: 'Read where the time of a run went',
        tags: ['runs'],
        params: z.object({ run_id: wireId('run') }),
        response: { 200: runTimeline, ...problems },
      },
    },
    async (request) => {
      const { run_id } = request.params;
      const { is_cut, ...run } = await readTimedRun(context.db, context.projectId, run_id);
      const intervals = deriveTimeline(run).map(({ kind, from, to, step }) => ({
        kind,
        from: from.toISOString(),
        to: to?.toISOString() ?? null,
        step_id: step === null ? null : toWireId('step', stepUuid({ run_id, ...step })),
      }));
      return { intervals, is_cut };
    },
  );
}
