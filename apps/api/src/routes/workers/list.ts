import { readLeaseCounts, readWorkers } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { workerResponse } from '../../schemas/worker.ts';
import { toWorkerResponse } from '../../wire/to-worker.ts';

const WORKERS_MAX = 1_000;

export function listWorkers(app: App, context: Context): void {
  app.get(
    '/v1/workers',
    {
      schema: {
        operationId: 'listWorkers',
        summary: 'List the workers',
        description:
          'The latest heartbeat first, at most 1,000. A worker that stops is not listed; a dead one is for a day.',
        tags: ['workers'],
        response: { 200: z.array(workerResponse), ...problems },
      },
    },
    async () => {
      const workers = await readWorkers(context.db, context.projectId, WORKERS_MAX);
      const leases = await readLeaseCounts(
        context.db,
        workers.map(({ owner }) => owner),
      );
      return workers.map((worker) => toWorkerResponse(worker, leases.get(worker.owner)));
    },
  );
}
